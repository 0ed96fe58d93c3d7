"""The plain ATen twin of an edge program: what Torch-TensorRT's converters understand.

ExecuTorch's edge graphs wrap each operator, replace views by ``*_copy`` operators and memory formats by
``dim_order`` operators, and lift weights to inputs. The twin undoes all of that and keeps the shape of the
graph: every node of the edge graph has one node in the twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.dim_order_utils import get_memory_format
from executorch.exir.passes.dim_order_ops_registry import MemoryFormatOpsMap
from torch.export import ExportedProgram
from torch.fx.passes.shape_prop import TensorMetadata

__all__ = [
    "Twin",
    "add_call",
    "add_computed_call",
    "aten_target",
    "build_twin",
    "constant_placeholders",
    "describe",
    "tensor_meta",
]


@dataclass(frozen=True)
class Twin:
    """The twin's graph module, and for each node of the edge graph the node that stands for it."""

    module: torch.fx.GraphModule
    of: Mapping[torch.fx.Node, torch.fx.Node]


def build_twin(program: ExportedProgram) -> Twin:
    """Copy the top graph of an edge program as plain ATen, with its weights as attributes.

    Mutated buffers stay inputs: their value changes between calls, so they are no constants. The given program is
    not changed; the weights are shared with it.
    """
    root = torch.nn.Module()
    graph = torch.fx.Graph()
    constants = constant_placeholders(program)
    of: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in program.graph.nodes:
        if node in constants:
            name = f"constant_{len(of)}"
            _set_constant(root, name, constants[node])
            copied = graph.get_attr(name)
        else:
            copied = _copy_node(graph, node, of)
            if node.op == "get_attr":
                setattr(root, str(node.target), getattr(program.graph_module, str(node.target)))
        # The passes that run on the twin write into the meta dictionaries, which must stay the edge graph's own.
        copied.meta = {**node.meta, **tensor_meta(node.meta.get("val"))}
        of[node] = copied
    module = torch.fx.GraphModule(root, graph)
    return Twin(module, of)


def aten_target(target: Any) -> Any:
    """Return the ATen operator that an edge operator stands for; other targets are returned as they are."""
    target = MemoryFormatOpsMap.get(target, target)
    if not isinstance(target, EdgeOpOverload):
        return target
    overload = target._op
    return _VIEW_OF.get(overload) or _view_of_copy(overload)


def tensor_meta(value: Any) -> dict[str, TensorMetadata]:
    """Return what some converters read instead of ``val``, and which exported programs do not have everywhere."""
    if not isinstance(value, torch.Tensor):
        return {}
    # Not by PyTorch's own helper: it would ask about the memory format, which adds guards to dynamic sizes.
    metadata = TensorMetadata(value.shape, value.dtype, False, value.stride(), None, False, {})
    return {"tensor_meta": metadata}


def describe(made: torch.fx.Node, origin: torch.fx.Node, value: Any) -> torch.fx.Node:
    """Say of a new node that it stands for a part of what ``origin`` computes, and gives ``value``."""
    made.meta = {**origin.meta, "val": value, **tensor_meta(value)}
    return made


def add_call(origin: torch.fx.Node, target: Any, arguments: tuple[Any, ...], value: Any) -> torch.fx.Node:
    """Add a call that stands for a part of what ``origin`` computes, where the graph inserts."""
    return describe(origin.graph.call_function(target, arguments), origin, value)


def add_computed_call(origin: torch.fx.Node, target: Any, *arguments: Any) -> torch.fx.Node:
    """Add such a call, whose value is what ``target`` makes of the values of its arguments."""
    values = torch.fx.node.map_arg(arguments, lambda argument: argument.meta["val"])
    return add_call(origin, target, arguments, target(*values))


def constant_placeholders(program: ExportedProgram) -> dict[torch.fx.Node, torch.Tensor]:
    """Return the inputs that are weights or constants, in the order of the graph, with their values."""
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    constants: dict[torch.fx.Node, torch.Tensor] = {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        name = (
            signature.inputs_to_parameters.get(node.name)
            or signature.inputs_to_buffers.get(node.name)
            or signature.inputs_to_lifted_tensor_constants.get(node.name)
        )
        if name is None or name in mutated:
            continue
        value = program.state_dict.get(name)
        constants[node] = program.constants[name] if value is None else value
    return constants


def _set_constant(root: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    tensor = value.detach() if isinstance(value, torch.nn.Parameter) else value
    root.register_buffer(name, tensor)


def _copy_node(graph: torch.fx.Graph, node: torch.fx.Node, of: Mapping[torch.fx.Node, torch.fx.Node]) -> torch.fx.Node:
    copied = graph.node_copy(node, lambda other: of[other])
    if node.op == "call_function":
        copied.target = aten_target(node.target)
        if node.target in MemoryFormatOpsMap:
            copied.kwargs = _without_dim_order(copied.kwargs)
        if copied.target is torch.ops.aten.full_like.default:
            _fill_known_shape(copied, node.meta["val"])
    return copied


def _fill_known_shape(full_like: torch.fx.Node, value: torch.Tensor) -> None:
    """Let a tensor of one number be made without a tensor of its shape, which no converter takes."""
    if all(isinstance(size, int) for size in value.shape):
        full_like.target = torch.ops.aten.full.default
        full_like.args = (list(value.shape), full_like.args[1])
        full_like.kwargs = {"dtype": value.dtype}


def _without_dim_order(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in kwargs.items() if key != "dim_order"}
    order = kwargs.get("dim_order")
    if order is not None:
        plain["memory_format"] = get_memory_format(list(order))
    return plain


# Copies whose view is not called like them.
_VIEW_OF: dict[Any, Any] = {
    torch.ops.aten.squeeze_copy.dims: torch.ops.aten.squeeze.dims,
    torch.ops.aten.view_copy.default: torch.ops.aten.view.default,
}


def _view_of_copy(overload: torch._ops.OpOverload) -> Any:
    name = overload._schema.name.split("::")[-1]
    namespace = overload.namespace
    if namespace != "aten" or not name.endswith("_copy") or name.startswith("_") or name == "copy":
        return overload
    packet = getattr(torch.ops.aten, name.removesuffix("_copy"), None)
    if packet is None or overload._overloadname not in packet.overloads():
        return overload
    return getattr(packet, overload._overloadname)
