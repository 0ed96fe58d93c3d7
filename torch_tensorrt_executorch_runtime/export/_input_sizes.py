"""Asks the inputs of a graph for sizes that change between calls, where the graph asks what it made of them.

The sizes are the same, but a tensor that is asked for one cannot be left out by the passes that follow.
"""

from __future__ import annotations

import torch

__all__ = ["ask_inputs_for_sizes"]

_SYM_SIZE = torch.ops.aten.sym_size.int


def ask_inputs_for_sizes(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, every question for a size that an input has too."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    sizes: dict[object, tuple[torch.fx.Node, int]] = {}
    for placeholder in placeholders:
        for dimension, size in enumerate(getattr(placeholder.meta.get("val"), "shape", ())):
            if isinstance(size, torch.SymInt):
                sizes.setdefault(size.node.expr, (placeholder, dimension))
    asked: dict[object, torch.fx.Node] = {}
    for node in list(module.graph.nodes):
        size = node.meta.get("val") if node.target is _SYM_SIZE else None
        if not isinstance(size, torch.SymInt) or size.node.expr not in sizes:
            continue
        expression = size.node.expr
        if expression not in asked:
            with module.graph.inserting_after(placeholders[-1]):
                asked[expression] = module.graph.call_function(_SYM_SIZE, sizes[expression])
            asked[expression].meta = dict(node.meta)
        node.replace_all_uses_with(asked[expression])
        module.graph.erase_node(node)
    module.recompile()
