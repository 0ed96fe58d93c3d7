"""Lets the last linear layers write their sums with residuals in the shape of the output.

TensorRT-RTX multiplies tokens as one matrix (see `flatten_tokens`) and joins bias and residual to the product, but not
where the sum leaves the engine as ``[batch, length, width]``: then the sum is a kernel of its own. As a product of
batches, with the weights once for each, it needs none. The residual is needed in that shape too, so the layers that it
comes from are written alike, as far back as their weights are small. That pays where a kernel counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._constants import add_constant, constant_value
from torch_tensorrt_executorch_runtime.export._twin import add_call

__all__ = ["batch_last_linears"]

_aten = torch.ops.aten
_NORM = _aten.native_layer_norm.default

# What the weights of an engine's last layers may take more.
_MOST_BYTES = 1 << 20

# Tokens that one block of a kernel works on: with less of them in a batch, a product of batches would take more blocks.
_LEAST_LENGTH = 32


@dataclass(frozen=True)
class _Last:
    """A linear layer whose sum with a residual is an output, or the residual of the next such sum."""

    total: torch.fx.Node
    linear: torch.fx.Node
    residual: torch.fx.Node
    weight: torch.Tensor

    def more_bytes(self) -> int:
        """Return what a copy of the weights for every further batch takes."""
        further: int = self.total.meta["val"].shape[0] - 1
        return further * self.weight.numel() * self.weight.element_size()


def batch_last_linears(module: torch.fx.GraphModule) -> frozenset[torch.fx.Node]:
    """Rewrite, in place, last linear layers of a small batch as products of batches.

    Returns:
        The nodes that must keep their shape for it: the sums, and the normalisations of what they add.
    """
    kept: set[torch.fx.Node] = set()
    room = _MOST_BYTES
    output = module.graph.output_node()
    for total in output.all_input_nodes:
        last = _find(module, total, {output, *kept})
        while last is not None and last.more_bytes() <= room:
            room -= last.more_bytes()
            _rewrite(module, last)
            kept |= {last.total, *_normalized(last.residual)}
            last = _find(module, last.residual, {output, *kept})
    module.recompile()
    return frozenset(kept)


def _find(module: torch.fx.GraphModule, total: torch.fx.Node, users: set[torch.fx.Node]) -> _Last | None:
    """Return what a sum is made of, when only ``users`` and normalisations use it; None elsewhere."""
    if total.target is not _aten.add.Tensor or total.kwargs or not _has_fitting_shape(total):
        return None
    if not all(user in users or user.target is _NORM for user in total.users):
        return None
    for linear, residual in (total.args, total.args[::-1]):
        if not isinstance(linear, torch.fx.Node) or not isinstance(residual, torch.fx.Node):
            continue
        if linear.target is not _aten.linear.default or len(linear.users) != 1 or linear.kwargs:
            continue
        weight = constant_value(module, linear.args[1])
        if weight is not None and weight.is_floating_point() and _same_shape(linear, residual):
            return _Last(total, linear, residual, weight)
    return None


def _same_shape(linear: torch.fx.Node, residual: torch.fx.Node) -> bool:
    value = residual.meta.get("val")
    return isinstance(value, torch.Tensor) and value.shape == linear.meta["val"].shape


def _has_fitting_shape(total: torch.fx.Node) -> bool:
    shape = total.meta["val"].shape
    return (
        len(shape) == 3 and all(isinstance(size, int) for size in shape) and shape[0] > 1 and shape[1] >= _LEAST_LENGTH
    )


def _normalized(residual: torch.fx.Node) -> list[torch.fx.Node]:
    norms = [user for user in residual.users if user.target is _NORM]
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
