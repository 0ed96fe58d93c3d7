"""Lets a last linear layer write its sum with the residual in the shape of the output.

TensorRT-RTX multiplies tokens as one matrix (see `flatten_tokens`) and joins bias and residual to the product, but not
where the sum leaves the engine as ``[batch, length, width]``: then the sum is a kernel of its own. As a product of
batches, with the weights once for each, it needs none. That pays where a kernel counts and the weights are small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._constants import add_constant, constant_value
from torch_tensorrt_executorch_runtime.export._twin import add_call

__all__ = ["batch_last_linears"]

_aten = torch.ops.aten

# What the weights of one layer may take more.
_MOST_BYTES = 1 << 20

# Tokens that one block of a kernel works on: with less of them in a batch, a product of batches would take more blocks.
_LEAST_LENGTH = 32


@dataclass(frozen=True)
class _Last:
    """A linear layer whose sum with a residual is an output."""

    total: torch.fx.Node
    linear: torch.fx.Node
    residual: torch.fx.Node
    weight: torch.Tensor


def batch_last_linears(module: torch.fx.GraphModule) -> frozenset[torch.fx.Node]:
    """Rewrite, in place, last linear layers of a small batch as products of batches.

    Returns:
        The nodes that must keep their shape for it: the sums, and normalisations of the residuals that they add,
        which then give the residual in this shape beside their own result.
    """
    kept = set()
    for total in list(module.graph.output_node().all_input_nodes):
        last = _find(module, total)
        if last is not None:
            _rewrite(module, last)
            kept |= {last.total, *_normalized(last.residual)}
    module.recompile()
    return frozenset(kept)


def _find(module: torch.fx.GraphModule, total: torch.fx.Node) -> _Last | None:
    if total.target is not _aten.add.Tensor or total.kwargs or len(total.users) != 1:
        return None
    for linear, residual in (total.args, total.args[::-1]):
        if not isinstance(linear, torch.fx.Node) or not isinstance(residual, torch.fx.Node):
            continue
        if linear.target is not _aten.linear.default or len(linear.users) != 1 or linear.kwargs:
            continue
        weight = constant_value(module, linear.args[1])
        if (
            weight is not None
            and weight.is_floating_point()
            and _same_shape(linear, residual)
            and _is_small(linear.meta["val"].shape, weight)
        ):
            return _Last(total, linear, residual, weight)
    return None


def _same_shape(linear: torch.fx.Node, residual: torch.fx.Node) -> bool:
    value = residual.meta.get("val")
    return isinstance(value, torch.Tensor) and value.shape == linear.meta["val"].shape


def _is_small(shape: torch.Size, weight: torch.Tensor) -> bool:
    if len(shape) != 3 or not all(isinstance(size, int) for size in shape):
        return False
    batch, length, _ = shape
    return batch > 1 and length >= _LEAST_LENGTH and (batch - 1) * weight.numel() * weight.element_size() <= _MOST_BYTES


def _normalized(residual: torch.fx.Node) -> list[torch.fx.Node]:
    norms = [user for user in residual.users if user.target is _aten.native_layer_norm.default]
    return [item for norm in norms for item in norm.users]


def _rewrite(module: torch.fx.GraphModule, last: _Last) -> None:
    linear: Any = last.linear
    source, given, *bias = linear.args
    value = linear.meta["val"]
    repeated = last.weight.t().expand(value.shape[0], -1, -1).contiguous()
    weights = add_constant(module, given, "repeated", repeated)
    with module.graph.inserting_before(linear):
        product = add_call(linear, _aten.bmm.default, (source, weights), value)
        if bias and bias[0] is not None:
            product = add_call(linear, _aten.add.Tensor, (product, bias[0]), value)
    linear.replace_all_uses_with(product)
    module.graph.erase_node(linear)
