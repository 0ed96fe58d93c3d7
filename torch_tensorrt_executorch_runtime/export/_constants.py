"""The weights and constants of a module whose graph is rewritten."""

from __future__ import annotations

from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._twin import describe

__all__ = ["add_constant", "constant_value"]


def constant_value(module: torch.fx.GraphModule, node: Any) -> torch.Tensor | None:
    """Return the tensor that a node stands for; None when ``node`` is none, or its value changes between calls."""
    if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
        return None
    owner, _, name = str(node.target).rpartition(".")
    value = getattr(module.get_submodule(owner), name)
    return value.detach() if isinstance(value, torch.Tensor) else None


def add_constant(module: torch.fx.GraphModule, like: torch.fx.Node, part: str, value: torch.Tensor) -> torch.fx.Node:
    """Add a constant to a module.

    Args:
        module: The module, which gets a buffer.
        like: A constant that stands before every use of the new one, which takes its name from it.
        part: What the new one is of ``like``; the end of its name.
        value: Its value.
    """
    name = stem = f"{str(like.target).replace('.', '_')}_{part}"
    number = 1
    while hasattr(module, name):
        number += 1
        name = f"{stem}_{number}"
    module.register_buffer(name, value)
    with like.graph.inserting_after(like):
        return describe(like.graph.get_attr(name), like, value)
