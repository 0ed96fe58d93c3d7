"""Groups supported nodes into engines whose every argument is a tensor in the default layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from torch_tensorrt_executorch_runtime.export._layout import has_default_layout
from torch_tensorrt_executorch_runtime.export._operator_support import NodeSupport, Reason, is_engine_call

__all__ = ["Proposal", "propose_engine_calls", "propose_partitions"]

# Operators that only move, view or convert data: an engine made of nothing else costs more than it saves.
_NOT_COMPUTING = frozenset(
    {
        "_operator.getitem",
        "aten._to_copy",
        "aten.alias",
        "aten.clone",
        "aten.detach",
        "aten.expand",
        "aten.lift_fresh_copy",
        "aten.permute",
        "aten.reshape",
        "aten.select",
        "aten.slice",
        "aten.squeeze",
        "aten.sym_size",
        "aten.t",
        "aten.transpose",
        "aten.unsqueeze",
        "aten.view",
    }
)


@dataclass(frozen=True)
class Proposal:
    """The nodes of each engine in the order of the graph, and why each other operator stays outside."""

    partitions: Sequence[Sequence[torch.fx.Node]]
    outside: Sequence[tuple[torch.fx.Node, str]]


def propose_partitions(program: ExportedProgram, support: NodeSupport, *, min_block_size: int) -> Proposal:
    """Group the supported nodes into as few engines as possible.

    Args:
        program: The edge program.
        support: Its decisions. Nodes that would give an engine an argument it cannot have are refused in it.
        min_block_size: Groups with fewer computing operators are left to others.
    """
    groups = _groups(program, support)
    while _refuse_boundaries(groups, support):
        groups = _groups(program, support)
    constants = _constants(program)
    kept = []
    for group in groups:
        reason = _reason_to_drop(group, support, constants, min_block_size)
        if reason is None:
            kept.append(group)
            continue
        for node in group:
            support.refuse(node, reason)
    return Proposal(kept, list(_outside(program, kept, support.reasons)))


def propose_engine_calls(program: ExportedProgram) -> Proposal:
    """Make one group of each engine that Torch-TensorRT compiled, with the items that are taken from its result."""
    groups = [
        [node, *(user for user in node.users if user.op == "call_function" and _is_getitem(user))]
        for node in program.graph.nodes
        if is_engine_call(node)
    ]
    reasons = {node: Reason.NOT_COMPILED for node in program.graph.nodes}
    return Proposal(groups, list(_outside(program, groups, reasons)))


def _groups(program: ExportedProgram, support: NodeSupport) -> list[list[torch.fx.Node]]:
    partitioner = CapabilityBasedPartitioner(program.graph_module, support, allows_single_node_partition=True)
    order = {node: index for index, node in enumerate(program.graph.nodes)}
    groups = [sorted(partition.nodes, key=order.__getitem__) for partition in partitioner.propose_partitions()]
    return sorted(groups, key=lambda group: order[group[0]])


def _refuse_boundaries(groups: Sequence[Sequence[torch.fx.Node]], support: NodeSupport) -> bool:
    """Refuse the nodes at a boundary that no engine can have; say whether there were any."""
    refused = False
    for group in groups:
        members = set(group)
        for node in group:
            reason = _boundary_reason(node, members)
            if reason is not None:
                support.refuse(node, reason)
                refused = True
    return refused


def _boundary_reason(node: torch.fx.Node, members: set[torch.fx.Node]) -> str | None:
    for other in node.all_input_nodes:
        if other in members:
            continue
        if not isinstance(other.meta.get("val"), torch.Tensor | list | tuple):
            return Reason.SIZE_FROM_OUTSIDE
        if not has_default_layout(other.meta["val"]):
            return Reason.MEMORY_FORMAT
    if all(user in members for user in node.users):
        return None
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt | int):
        return Reason.SHAPE_ARITHMETIC
    return None if has_default_layout(value) else Reason.MEMORY_FORMAT


def _reason_to_drop(
    group: Sequence[torch.fx.Node], support: NodeSupport, constants: set[torch.fx.Node], min_block_size: int
) -> str | None:
    members = set(group)
    computing = sum(_computes(node, support) for node in group)
    if computing == 0:
        return Reason.NO_COMPUTATION
    if all(other in members or other in constants for node in group for other in node.all_input_nodes):
        return Reason.NO_TENSOR_INPUT
    return Reason.TOO_SMALL if computing < min_block_size else None


def _computes(node: torch.fx.Node, support: NodeSupport) -> bool:
    if _is_getitem(node) or isinstance(node.meta.get("val"), torch.SymInt | int):
        return False
    target = support.aten(node)
    packet = getattr(target, "overloadpacket", target)
    return str(packet) not in _NOT_COMPUTING


def _constants(program: ExportedProgram) -> set[torch.fx.Node]:
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    buffers = {name for name, target in signature.inputs_to_buffers.items() if target not in mutated}
    names = buffers | set(signature.inputs_to_parameters) | set(signature.inputs_to_lifted_tensor_constants)
    return {node for node in program.graph.nodes if node.op == "placeholder" and node.name in names}


def _outside(
    program: ExportedProgram, groups: Sequence[Sequence[torch.fx.Node]], reasons: dict[torch.fx.Node, str]
) -> Iterator[tuple[torch.fx.Node, str]]:
    inside = {node for group in groups for node in group}
    for node in program.graph.nodes:
        if node.op != "call_function" or node in inside or not _gives_tensors(node):
            continue
        yield node, reasons.get(node, Reason.NO_CONVERTER)


def _gives_tensors(node: torch.fx.Node) -> bool:
    return not _is_getitem(node) and isinstance(node.meta.get("val"), torch.Tensor | list | tuple)


def _is_getitem(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"
