"""Splits deep convolutions of few pixels into groups of channels that a GPU computes side by side.

The last convolutions of an image network make many channels of few pixels out of many channels, and a small batch gives
a large GPU a handful of tiles to compute, each of them a long sum. As a convolution of four groups there are four times
as many tiles with sums of a quarter, and a short kernel adds them up. On an H200, a 3x3 convolution of 512 channels on
7x7 pixels in half precision takes 10 us in this form and 18 in the other, and ResNet-18 takes 131 us instead of 161.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._constants import add_constant, constant_value
from torch_tensorrt_executorch_runtime.export._convolutions import read_convolution
from torch_tensorrt_executorch_runtime.export._twin import add_call

__all__ = ["split_deep_convolutions"]

_aten = torch.ops.aten

_GROUPS = 4
# A kernel computes no fewer pixels than these at once, so that more of them make more tiles.
_FEW_PIXELS = 64
# Of how many products a number must be the sum for the second kernel to pay.
_DEEP = 2048
# Tensor cores take this number of channels at full speed, and kernels of convolutions move so many at once.
_CHANNELS = 32


def split_deep_convolutions(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, convolutions that are sums of many products and give few pixels.

    The parts are added up in float32, and rounded once.

    Args:
        module: A partition after Torch-TensorRT's passes, and after other rewrites of convolutions.
    """
    for node in list(module.graph.nodes):
        if not _gives_few_pixels(node):
            continue
        weight, bias = (constant_value(module, node.args[index]) for index in (1, 2))
        if weight is not None and _is_deep(weight) and (bias is not None or node.args[2] is None):
            _split(module, node, weight, bias)
    module.recompile()


def _gives_few_pixels(node: torch.fx.Node) -> bool:
    convolution = read_convolution(node)
    if convolution is None or convolution.groups != 1 or len(convolution.stride) != 2:
        return False
    batch, _, *pixels = node.meta["val"].shape
    sizes = (batch, *pixels)
    return all(isinstance(size, int) for size in sizes) and math.prod(sizes) <= _FEW_PIXELS


def _is_deep(weight: torch.Tensor) -> bool:
    channels = weight.shape[1]
    return weight.is_floating_point() and weight[0].numel() >= _DEEP and channels % (_GROUPS * _CHANNELS) == 0


def _split(module: torch.fx.GraphModule, node: torch.fx.Node, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    batch, outputs, *pixels = node.meta["val"].shape
    dtype = node.meta["val"].dtype
    given: Any = node.args[1]
    # The number of groups is the last argument of either operator.
    arguments = (node.args[0], add_constant(module, given, "split", _grouped(weight)), None, *node.args[3:-1], _GROUPS)
    added = None if bias is None else add_constant(module, given, "bias", bias.float().reshape(1, -1, 1, 1))
    parted, summed = (batch, _GROUPS, outputs, *pixels), (batch, outputs, *pixels)
    with module.graph.inserting_before(node):
        parts = _call(node, node.target, arguments, (batch, _GROUPS * outputs, *pixels), dtype)
        parts = _call(node, _aten.reshape.default, (parts, list(parted)), parted, dtype)
        parts = _cast(node, parts, torch.float32)
        total = _call(node, _aten.sum.dim_IntList, (parts, [1]), summed, torch.float32)
        if added is not None:
            total = _call(node, _aten.add.Tensor, (total, added), summed, torch.float32)
        total = _cast(node, total, dtype)
    node.replace_all_uses_with(total)
    module.graph.erase_node(node)


def _grouped(weight: torch.Tensor) -> torch.Tensor:
    """Return the weights of all outputs for the first group of channels, then for the second, and so on."""
    outputs, channels, *kernel = weight.shape
    parts = weight.reshape(outputs, _GROUPS, channels // _GROUPS, *kernel).transpose(0, 1)
    return parts.reshape(_GROUPS * outputs, channels // _GROUPS, *kernel).contiguous()


def _cast(origin: torch.fx.Node, source: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
    value = source.meta["val"]
    if value.dtype == dtype:
        return source
    node = _call(origin, _aten._to_copy.default, (source,), value.shape, dtype)
    node.kwargs = {"dtype": dtype}
    return node


def _call(
    origin: torch.fx.Node, target: Any, arguments: tuple[Any, ...], shape: Sequence[int], dtype: torch.dtype
) -> torch.fx.Node:
    """Add a node, which stands for a part of what ``origin`` computes."""
    return add_call(origin, target, arguments, origin.meta["val"].new_empty(shape, dtype=dtype))
