"""Gives each operator its own size arithmetic, so that sizes do not cross from one engine to the next.

An exported graph reads each dynamic size once and uses it everywhere. When its users end up in several engines, the
size would have to be handed to them as a number, which engines do not take. So each user gets the size from one of
its own tensors where that is possible, and a copy of the arithmetic otherwise.
"""

from __future__ import annotations

import torch
from torch.fx.passes.infra.pass_base import PassResult

__all__ = ["has_dynamic_sizes", "localize_sizes"]


def has_dynamic_sizes(module: torch.fx.GraphModule) -> bool:
    """Say whether any value of the graph is a dynamic size."""
    return any(isinstance(node.meta.get("val"), torch.SymInt) for node in module.graph.nodes)


def localize_sizes(module: torch.fx.GraphModule) -> PassResult:
    """Rewrite the graph in place; a transform pass for ``to_edge_transform_and_lower``."""
    changed = False
    for node in list(module.graph.nodes):
        if node.op != "call_function" or _is_size(node):
            continue
        sizes = [other for other in node.all_input_nodes if _is_size(other) and other.op == "call_function"]
        for size in sizes:
            with module.graph.inserting_before(node):
                node.replace_input_with(size, _local_copy(size, node, module.graph))
            changed = True
    if changed:
        module.graph.eliminate_dead_code()
        module.recompile()
    return PassResult(module, changed)


def _is_size(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt)


def _local_copy(size: torch.fx.Node, user: torch.fx.Node, graph: torch.fx.Graph) -> torch.fx.Node:
    expression = size.meta["val"].node.expr
    for tensor in user.all_input_nodes:
        value = tensor.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        for axis, length in enumerate(value.shape):
            if isinstance(length, torch.SymInt) and length.node.expr == expression:
                return _with_meta(graph.call_function(torch.ops.aten.sym_size.int, (tensor, axis)), size)
    arguments = [
        _local_copy(arg, user, graph) if isinstance(arg, torch.fx.Node) and _is_copyable(arg) else arg
        for arg in size.args
    ]
    return _with_meta(graph.create_node("call_function", size.target, tuple(arguments), dict(size.kwargs)), size)


def _is_copyable(node: torch.fx.Node) -> bool:
    return _is_size(node) and node.op == "call_function"


def _with_meta(copied: torch.fx.Node, size: torch.fx.Node) -> torch.fx.Node:
    copied.meta = dict(size.meta)
    return copied
