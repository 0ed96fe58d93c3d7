"""Keeps integers exact: some converters compute them as float32, or int64 as int32, without a word."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["rounds_integers", "select_int64_exactly"]

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

# Elsewhere a number is taken for an int32 wherever it stands beside a tensor.
_TAKES_ANY_SCALAR = frozenset({"aten.add", "aten.mul", "aten.sub"})


def rounds_integers(node: torch.fx.Node) -> bool:
    """Say whether TensorRT would compute this node of a twin on integers that it does not hold exactly."""
    packet = str(getattr(node.target, "overloadpacket", ""))
    if _is_pointwise(node) and packet not in _TAKES_ANY_SCALAR and any(map(_is_long, node.args)):
        return True
    data = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
    return isinstance(data, torch.Tensor) and packet in _INEXACT.get(data.dtype, ())


def select_int64_exactly(module: torch.fx.GraphModule) -> None:
    """Rewrite ``where(c, a, b)`` on int64, which the converter computes in int32, as ``b + c * (a - b)``.

    Integers wrap around, so this is exact even where the difference overflows.
    """
    for node in list(module.graph.nodes):
        if node.target is torch.ops.aten.where.self and node.meta["val"].dtype == torch.int64:
            with module.graph.inserting_before(node):
                replacement = _arithmetic_select(module.graph, *node.args)
            node.replace_all_uses_with(replacement)
            module.graph.erase_node(node)
    module.recompile()


def _is_pointwise(node: torch.fx.Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _is_long(argument: Any) -> bool:
    return isinstance(argument, int) and not -(2**31) <= argument < 2**31


def _arithmetic_select(graph: torch.fx.Graph, condition: Any, first: Any, second: Any) -> torch.fx.Node:
    aten = torch.ops.aten
    chosen = _call(graph, aten._to_copy.default, condition, dtype=torch.int64)
    difference = _call(graph, aten.sub.Tensor, first, second)
    product = _call(graph, aten.mul.Tensor, chosen, difference)
    return _call(graph, aten.add.Tensor, second, product)


def _call(graph: torch.fx.Graph, target: Any, *arguments: Any, **keywords: Any) -> torch.fx.Node:
    node = graph.call_function(target, arguments, keywords)
    values = [argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument for argument in arguments]
    node.meta["val"] = target(*values, **keywords)
    return node
