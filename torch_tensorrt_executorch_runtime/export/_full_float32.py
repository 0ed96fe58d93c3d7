"""Keeps float32 products as precise as float32, where TensorRT-RTX would round their factors to TF32.

TF32 holds 10 bits of the mantissa's 23, and TensorRT-RTX has no switch against it: the builder flag and the
environment variable are without effect. So each factor is split into two parts that together hold 16 bits or more and
of which TF32 rounds only the smaller one::

    x * w  =  high(x) * high(w)  +  (low(x) * high(w) + high(x) * low(w))  +  low(x) * low(w)

``high`` is the factor as bfloat16, which TF32 holds exactly, and ``low`` is the rest. The last term is left out: it
is below 2**-18 of the product, and so is what TF32 rounds off the two before it. Sums of products are kept in float32
as ever. This takes three products for one and twice the memory of the weights. Weights are split when the model is
exported, inputs at each call.

A factor that is infinite, or so near to float32's limit that bfloat16 rounds it to infinity, gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._constants import add_constant, constant_value
from torch_tensorrt_executorch_runtime.export._convolutions import padded_convolution
from torch_tensorrt_executorch_runtime.export._twin import describe

__all__ = ["split_float32_products"]

_aten = torch.ops.aten

# The positions of the two factors of each product, and of what is added to it.
_FACTORS: dict[Any, tuple[int, int]] = {
    _aten.addmm.default: (1, 2),
    _aten.baddbmm.default: (1, 2),
    _aten.bmm.default: (0, 1),
    _aten.convolution.default: (0, 1),
    _aten.dot.default: (0, 1),
    _aten.linear.default: (0, 1),
    _aten.matmul.default: (0, 1),
    _aten.mm.default: (0, 1),
    _aten.mv.default: (0, 1),
}
_WITHOUT_MATRIX_PRODUCT = 2


def split_float32_products(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, every product of float32 that tensor cores may round.

    Args:
        module: A partition after Torch-TensorRT's passes, which fold what is made of weights alone.
    """
    splitter = _Splitter(module)
    factors = _factors()
    for node in list(module.graph.nodes):
        if node.target in factors:
            splitter.split_product(node, factors[node.target])
        elif node.target is _aten._cdist_forward.default:
            # Its converter multiplies matrices unless it is told to take differences, which are not rounded.
            node.args = (*node.args[:3], _WITHOUT_MATRIX_PRODUCT)
    module.graph.lint()
    module.recompile()


def _factors() -> dict[Any, tuple[int, int]]:
    """Return the positions of the factors of every product, those of Torch-TensorRT's own operators among them."""
    padded = padded_convolution()
    return _FACTORS if padded is None else {**_FACTORS, padded: (0, 1)}


class _Splitter:
    """Splits factors, each once however many products it is in."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._module = module
        self._graph = module.graph
        self._parts: dict[torch.fx.Node, tuple[torch.fx.Node, torch.fx.Node]] = {}

    def split_product(self, node: torch.fx.Node, positions: tuple[int, int]) -> None:
        factors: list[Any] = [node.args[position] for position in positions]
        if not all(self._is_float32(factor) for factor in factors) or all(map(_was_half, factors)):
            return
        (high_x, low_x), (high_w, low_w) = (self._split(factor) for factor in factors)
        with self._graph.inserting_before(node):
            low_high = _correction(node, low_x, high_w)
            high_low = _correction(node, high_x, low_w)
            # The small terms first: together they may reach a bit that each alone would lose.
            small = _like(node, self._graph.call_function(_aten.add.Tensor, (low_high, high_low)))
            high_high = self._graph.create_node("call_function", node.target, node.args, node.kwargs)
            _like(node, high_high).args = _with(node.args, positions, (high_x, high_w))
            total = _like(node, self._graph.call_function(_aten.add.Tensor, (high_high, small)))
        node.replace_all_uses_with(total)
        self._graph.erase_node(node)

    def _is_float32(self, node: torch.fx.Node) -> bool:
        value = constant_value(self._module, node) if node.op == "get_attr" else node.meta.get("val")
        return isinstance(value, torch.Tensor) and value.dtype == torch.float32

    def _split(self, node: torch.fx.Node) -> tuple[torch.fx.Node, torch.fx.Node]:
        if node not in self._parts:
            value = constant_value(self._module, node)
            self._parts[node] = self._split_value(node) if value is None else self._split_constant(node, value)
        return self._parts[node]

    def _split_constant(self, node: torch.fx.Node, value: torch.Tensor) -> tuple[torch.fx.Node, torch.fx.Node]:
        high = value.to(torch.bfloat16).to(torch.float32)
        return add_constant(self._module, node, "high", high), add_constant(self._module, node, "low", value - high)

    def _split_value(self, node: torch.fx.Node) -> tuple[torch.fx.Node, torch.fx.Node]:
        with self._graph.inserting_before(_next_call(node)):
            # Casts, and no arithmetic trick, because TensorRT may reorder arithmetic but keeps each cast.
            rounded = self._cast(node, torch.bfloat16)
            high = self._cast(rounded, torch.float32)
            low = _like(node, self._graph.call_function(_aten.sub.Tensor, (node, high)))
        return high, low

    def _cast(self, node: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
        cast = self._graph.call_function(_aten._to_copy.default, (node,), {"dtype": dtype})
        return describe(cast, node, node.meta["val"].to(dtype))


def _was_half(node: torch.fx.Node) -> bool:
    # TF32 holds float16 and bfloat16 exactly, and TensorRT looks for this pattern to sum half precision in float32.
    if node.target is not _aten._to_copy.default:
        return False
    source = node.all_input_nodes[0].meta.get("val")
    return isinstance(source, torch.Tensor) and source.dtype in (torch.float16, torch.bfloat16)


def _next_call(node: torch.fx.Node) -> torch.fx.Node:
    following = node.next
    while following.op in ("placeholder", "get_attr"):
        following = following.next
    return following


def _correction(node: torch.fx.Node, x: torch.fx.Node, w: torch.fx.Node) -> torch.fx.Node:
    """Return the product of two parts in the manner of ``node``, but without what ``node`` adds to it."""
    make = _convolution if node.target is padded_convolution() else _CORRECTIONS.get(node.target, _alone)
    return make(node, x, w)


def _alone(node: torch.fx.Node, x: torch.fx.Node, w: torch.fx.Node) -> torch.fx.Node:
    return _again(node, x, w)


def _convolution(node: torch.fx.Node, x: torch.fx.Node, w: torch.fx.Node) -> torch.fx.Node:
    return _again(node, x, w, None, *node.args[3:])


def _scaled(product: Any) -> Callable[[torch.fx.Node, torch.fx.Node, torch.fx.Node], torch.fx.Node]:
    def make(node: torch.fx.Node, x: torch.fx.Node, w: torch.fx.Node) -> torch.fx.Node:
        result = _like(node, node.graph.call_function(product, (x, w)))
        alpha = node.kwargs.get("alpha", 1)
        return result if alpha == 1 else _like(node, node.graph.call_function(_aten.mul.Tensor, (result, alpha)))

    return make


_CORRECTIONS: dict[Any, Callable[[torch.fx.Node, torch.fx.Node, torch.fx.Node], torch.fx.Node]] = {
    _aten.addmm.default: _scaled(_aten.mm.default),
    _aten.baddbmm.default: _scaled(_aten.bmm.default),
    _aten.convolution.default: _convolution,
}


def _again(node: torch.fx.Node, *arguments: Any) -> torch.fx.Node:
    return _like(node, node.graph.create_node("call_function", node.target, arguments, {}))


def _with(arguments: tuple[Any, ...], positions: tuple[int, int], values: tuple[Any, Any]) -> tuple[Any, ...]:
    changed = list(arguments)
    for position, value in zip(positions, values, strict=True):
        changed[position] = value
    return tuple(changed)


def _like(node: torch.fx.Node, made: torch.fx.Node) -> torch.fx.Node:
    return describe(made, node, node.meta.get("val"))
