"""Keeps integers exact: some converters compute them as float32, or int64 as int32, without a word."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["keep_integers_exact", "rounds_integers"]

_aten = torch.ops.aten

# Found by converting each operator on integers and looking for casts of its data in the network.
_INEXACT = {
    torch.int32: frozenset(
        {
            "aten.amax",
            "aten.amin",
            "aten.argmax",
            "aten.argmin",
            "aten.cumsum",
            "aten.max",
            "aten.min",
            "aten.neg",
            "aten.prod",
            "aten.scatter",
        }
    ),
    torch.int64: frozenset(
        {
            "aten.cumsum",
            "aten.index_copy",
            "aten.index_put",
            "aten.masked_fill",
            "aten.scatter",
            "aten.select_scatter",
            "aten.slice_scatter",
            "aten.tril",
            "aten.triu",
        }
    ),
}

_ROUNDING = frozenset({_aten.ceil.default, _aten.floor.default, _aten.round.default, _aten.trunc.default})
_SUMS = frozenset({_aten.sum.default, _aten.sum.dim_IntList})

# Elsewhere a number is taken for an int32 wherever it stands beside a tensor.
_TAKES_ANY_SCALAR = frozenset({"aten.add", "aten.mul", "aten.sub"})


def rounds_integers(node: torch.fx.Node) -> bool:
    """Say whether TensorRT would compute this node of a twin on integers that it does not hold exactly."""
    packet = str(getattr(node.target, "overloadpacket", ""))
    if _is_pointwise(node) and packet not in _TAKES_ANY_SCALAR and any(map(_is_long, node.args)):
        return True
    if packet == "aten.arange" and any(map(_is_long, node.args)):
        return True
    if packet == "aten.pow" and not node.meta["val"].is_floating_point():
        return not _is_small_power(node)
    data = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
    return isinstance(data, torch.Tensor) and packet in _INEXACT.get(data.dtype, ())


def keep_integers_exact(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, what the converters would compute on shortened integers or numbers.

    * ``where(c, a, b)`` on int64 is computed in int32, so it becomes ``b + c * (a - b)``. Integers wrap around, which
      makes this exact even where the difference overflows.
    * A fraction beside integers is cut to an integer (``x < 0.5`` to ``x < 0``), so they become float32, as in PyTorch.
    * Sums of int32 and bool are taken in 32 bits, so they become int64 first, as in PyTorch.
    * Rounding an integer is left out; it would be done in float32, or refused by TensorRT.
    * Small powers become products, which wrap around as in PyTorch; TensorRT's own power ends at the largest integer.
    """
    for node in list(module.graph.nodes):
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor):
            _keep_node_exact(node)
    module.recompile()


def _keep_node_exact(node: torch.fx.Node) -> None:
    with node.graph.inserting_before(node):
        if node.target is _aten.where.self and node.meta["val"].dtype == torch.int64:
            _replace(node, _arithmetic_select(node.graph, *node.args))
        elif node.target in _ROUNDING and not node.meta["val"].is_floating_point():
            _replace(node, node.all_input_nodes[0])
        elif _is_small_power(node) and not node.meta["val"].is_floating_point():
            _replace(node, _product(node.graph, node.args[0], node.args[1]))
        elif node.target in _SUMS and node.meta["val"].dtype == torch.int64:
            _cast_inputs(node, torch.int64)
        elif _is_pointwise(node) and _has_fraction_beside_integers(node):
            _cast_inputs(node, torch.float32)
        elif node.target is _aten.isinf.default and not node.all_input_nodes[0].meta["val"].is_floating_point():
            # TensorRT refuses int64 here. No integer is infinite as float32 either.
            _cast_inputs(node, torch.float32)


def _replace(node: torch.fx.Node, other: torch.fx.Node) -> None:
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)


def _cast_inputs(node: torch.fx.Node, dtype: torch.dtype) -> None:
    for source in list(node.all_input_nodes):
        if source.meta["val"].dtype != dtype:
            node.replace_input_with(source, _call(node.graph, _aten._to_copy.default, source, dtype=dtype))


def _has_fraction_beside_integers(node: torch.fx.Node) -> bool:
    values = [source.meta.get("val") for source in node.all_input_nodes]
    whole = all(isinstance(value, torch.Tensor) and not value.is_floating_point() for value in values)
    return whole and any(isinstance(argument, float) for argument in node.args)


def _is_pointwise(node: torch.fx.Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _is_long(argument: Any) -> bool:
    return isinstance(argument, int) and not -(2**31) <= argument < 2**31


def _arithmetic_select(graph: torch.fx.Graph, condition: Any, first: Any, second: Any) -> torch.fx.Node:
    chosen = _call(graph, _aten._to_copy.default, condition, dtype=torch.int64)
    difference = _call(graph, _aten.sub.Tensor, first, second)
    product = _call(graph, _aten.mul.Tensor, chosen, difference)
    return _call(graph, _aten.add.Tensor, second, product)


def _is_small_power(node: torch.fx.Node) -> bool:
    return node.target is _aten.pow.Tensor_Scalar and node.args[1] in (1, 2, 3, 4)


def _product(graph: torch.fx.Graph, base: Any, times: Any) -> Any:
    result = base
    for _ in range(int(times) - 1):
        result = _call(graph, _aten.mul.Tensor, result, base)
    return result


def _call(graph: torch.fx.Graph, target: Any, *arguments: Any, **keywords: Any) -> torch.fx.Node:
    node = graph.call_function(target, arguments, keywords)
    values = [argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument for argument in arguments]
    node.meta["val"] = target(*values, **keywords)
    return node
