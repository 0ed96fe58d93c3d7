"""Gives the first convolution of an image network blocks of pixels for channels.

Tensor cores multiply eight channels or more at a time, and an image has three. A convolution that steps over pixels can
read every block of them as one pixel with many channels instead, and step by 1: each product is the same, beside some
with zero. Where a convolution reads as many pixels as it steps over, as in vision transformers, it becomes a matrix
product. On an H200 in half precision, the first layer of ViT-B/16 takes 5 us in this form and 144 in the other, that of
ResNet-18 10 and 29.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from torch_tensorrt_executorch_runtime.export._constants import add_constant, constant_value
from torch_tensorrt_executorch_runtime.export._convolutions import Convolution, read_convolution
from torch_tensorrt_executorch_runtime.export._twin import add_call

__all__ = ["read_blocks_of_pixels"]

_aten = torch.ops.aten

# More channels than these fill the tensor cores well enough.
_FEW_CHANNELS = 4
# With smaller kernels and steps than both of these, moving the pixels costs what the products gain, or more.
_LARGE_KERNEL = 7
_LARGE_STEP = 4
# Tensor cores of every type take this number of channels, or a multiple, at full speed.
_CHANNELS = 8


def read_blocks_of_pixels(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, every two-dimensional convolution of few channels that steps over pixels.

    Args:
        module: A partition after Torch-TensorRT's passes, which make padding a part of the convolution.
    """
    for node in list(module.graph.nodes):
        convolution = read_convolution(node)
        weight = None if convolution is None else constant_value(module, node.args[1])
        blocks = None if convolution is None or weight is None else _blocks(convolution, node, weight)
        if blocks is not None and weight is not None:
            _rewrite(module, node, weight, blocks)
    module.recompile()


@dataclass(frozen=True)
class _Blocks:
    """Blocks of ``size`` x ``size`` pixels: what is padded to fill them, and how many there are.

    ``after`` is negative where the convolution leaves out the last pixels.
    """

    size: int
    before: tuple[int, ...]
    after: tuple[int, int]
    grid: tuple[int, int]


def _blocks(convolution: Convolution, node: torch.fx.Node, weight: torch.Tensor) -> _Blocks | None:
    """Return the blocks that a convolution can read, None where it has no use for them."""
    image = node.all_input_nodes[0].meta["val"].shape
    result = node.meta["val"].shape
    step = convolution.stride[0]
    plain = convolution.groups == 1 and convolution.dilation == (1, 1) and convolution.stride == (step, step)
    worthwhile = step >= _LARGE_STEP or (step >= 2 and max(weight.shape[2:]) >= _LARGE_KERNEL)
    if not plain or not worthwhile or weight.shape[1] > _FEW_CHANNELS or not weight.is_floating_point():
        return None
    if not all(isinstance(size, int) for size in (*image[1:], *result[1:])):
        return None
    steps = [-(-kernel // step) for kernel in weight.shape[2:]]
    grid = (result[2] + steps[0] - 1, result[3] + steps[1] - 1)
    after = tuple(step * grid[i] - image[2 + i] - convolution.before[i] for i in range(2))
    return _Blocks(step, convolution.before, (after[0], after[1]), grid)


def _rewrite(module: torch.fx.GraphModule, node: torch.fx.Node, weight: torch.Tensor, blocks: _Blocks) -> None:
    given: Any = node.args[1]
    new_weight = add_constant(module, given, "of_blocks", _weight_of_blocks(weight, blocks.size))
    with module.graph.inserting_before(node):
        image = _image_of_blocks(node.all_input_nodes[0], blocks)
        arguments = (image, new_weight, node.args[2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        convolution = module.graph.call_function(_aten.convolution.default, arguments)
    convolution.meta = dict(node.meta)
    node.replace_all_uses_with(convolution)
    module.graph.erase_node(node)


def _weight_of_blocks(weight: torch.Tensor, size: int) -> torch.Tensor:
    outputs, channels, *kernel = weight.shape
    height, width = (-(-extent // size) for extent in kernel)
    filled = functional.pad(weight, (0, width * size - kernel[1], 0, height * size - kernel[0]))
    parts = filled.reshape(outputs, channels, height, size, width, size).permute(0, 1, 3, 5, 2, 4)
    joined = parts.reshape(outputs, channels * size * size, height, width)
    return functional.pad(joined, (0, 0, 0, 0, 0, _missing_channels(joined.shape[1]))).contiguous()


def _image_of_blocks(image: torch.fx.Node, blocks: _Blocks) -> torch.fx.Node:
    batch, channels, *pixels = image.meta["val"].shape
    before, after, grid, size = blocks.before, blocks.after, blocks.grid, blocks.size
    for i in range(2):
        if after[i] < 0:
            pixels[i] += after[i]
            image = _call(_aten.slice.Tensor, image, 2 + i, 0, pixels[i], shape=(batch, channels, *pixels))
    padding = [before[1], max(after[1], 0), before[0], max(after[0], 0)]
    if any(padding):
        shape = (batch, channels, grid[0] * size, grid[1] * size)
        image = _call(_aten.constant_pad_nd.default, image, padding, 0.0, shape=shape)
    parts = [channels, grid[0], size, grid[1], size]
    image = _call(_aten.reshape.default, image, [-1, *parts], shape=(batch, *parts))
    image = _call(_aten.permute.default, image, [0, 1, 3, 5, 2, 4], shape=(batch, channels, size, size, *grid))
    channels *= size * size
    image = _call(_aten.reshape.default, image, [-1, channels, *grid], shape=(batch, channels, *grid))
    missing = _missing_channels(channels)
    if not missing:
        return image
    padding = [0, 0, 0, 0, 0, missing]
    return _call(_aten.constant_pad_nd.default, image, padding, 0.0, shape=(batch, channels + missing, *grid))


def _missing_channels(channels: int) -> int:
    return -channels % _CHANNELS


def _call(target: Any, source: torch.fx.Node, *arguments: Any, shape: tuple[Any, ...]) -> torch.fx.Node:
    """Add a node. Its shape is given, because computing it could tie a batch that changes to one number."""
    return add_call(source, target, (source, *arguments), source.meta["val"].new_empty(shape))
