"""Replaces the containers of a program's inputs and outputs that ExecuTorch cannot write.

ExecuTorch hands over flat lists of values, yet it also writes down how the values were nested, and stops at a container
without a registered name: what `torch.sort` returns, a named tuple, a registered class of the user's.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

__all__ = ["with_writable_containers"]


def with_writable_containers(program: ExportedProgram) -> ExportedProgram:
    """Return a program whose nameless containers are tuples: the given one when there is none.

    Values and their order stay as they are. Neither the given program nor PyTorch's registry is changed.
    """
    entries = [_writable_entry(entry) for entry in program.module_call_graph]
    if all(new is old for new, old in zip(entries, program.module_call_graph, strict=True)):
        return program
    copied = copy.copy(program)
    copied._module_call_graph = entries
    if program.example_inputs is not None and copied.call_spec.in_spec is not None:
        # They must fit the new specification.
        copied._example_inputs = pytree.tree_unflatten(
            pytree.tree_leaves(program.example_inputs), copied.call_spec.in_spec
        )
    return copied


def _writable_entry(entry: Any) -> Any:
    signature = entry.signature
    if signature is None:
        return entry
    in_spec, out_spec = _writable(signature.in_spec), _writable(signature.out_spec)
    if in_spec is signature.in_spec and out_spec is signature.out_spec:
        return entry
    return dataclasses.replace(entry, signature=dataclasses.replace(signature, in_spec=in_spec, out_spec=out_spec))


def _writable(spec: Any) -> Any:
    if spec is None or spec.is_leaf() or _can_be_written(spec):
        return spec
    children = [_writable(child) for child in spec.children()]
    shallow = pytree.TreeSpec(spec.type, spec.context, [pytree.treespec_leaf() for _ in children])
    if _can_be_written(shallow):
        return pytree.TreeSpec(spec.type, spec.context, children)
    return pytree.TreeSpec(tuple, None, children)


def _can_be_written(spec: Any) -> bool:
    try:
        pytree.treespec_dumps(spec)
    except Exception:  # whatever the functions of a registered class raise
        return False
    return True
