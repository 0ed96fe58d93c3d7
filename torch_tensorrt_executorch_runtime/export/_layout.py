"""Brings a program to PyTorch's default memory layout, in which engines read and write.

A ``channels_last`` model computes the same numbers; only their order in memory differs. Engines choose their own
order inside, so the program keeps the default one at every boundary. An input that comes as ``channels_last`` stays
so for the caller, and is reordered by ExecuTorch before the first engine.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.tensor import dim_order_from_stride
from torch.export import ExportedProgram

__all__ = ["has_default_layout", "in_default_layout", "let_views_copy"]

_REORDERED = (torch.channels_last, torch.channels_last_3d)


def has_default_layout(value: Any) -> bool:
    """Say whether a value is no tensor, or one whose dimensions lie in memory from the outermost to the innermost.

    An expanded tensor, which repeats memory, counts as one: ExecuTorch copies it into the default layout.
    """
    if not isinstance(value, torch.Tensor) or any(isinstance(step, int) and step == 0 for step in value.stride()):
        return True
    return list(dim_order_from_stride(value.stride())) == list(range(value.dim()))


def in_default_layout(program: ExportedProgram) -> ExportedProgram:
    """Return a program that computes the same in the default layout: the given one when it does already.

    The given program is not changed. Weights in another layout are copied.
    """
    lifted = _lifted(program)
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    if all(has_default_layout(node.meta.get("val")) for node in inputs) and not any(
        map(_is_reordering, program.graph.nodes)
    ):
        return program
    copied: ExportedProgram = program.run_decompositions({})
    copied._state_dict = {name: _contiguous(value) for name, value in copied.state_dict.items()}
    copied._constants = {name: _contiguous(value) for name, value in copied.constants.items()}
    for node in list(copied.graph.nodes):
        if _is_reordering(node):
            node.kwargs = {**node.kwargs, "memory_format": torch.contiguous_format}
        elif node.op == "placeholder" and not has_default_layout(node.meta.get("val")):
            if node.name in lifted:
                node.meta["val"] = node.meta["val"].contiguous()
            else:
                _reorder_input(copied.graph_module.graph, node)
    let_views_copy(copied.graph_module)
    return copied


def let_views_copy(module: torch.fx.GraphModule) -> None:
    """Make views reshapes, in place, which PyTorch can compute in any layout.

    A view may have been possible only in the layout that its source had when the program was exported.
    """
    for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        node.target = torch.ops.aten.reshape.default
    module.recompile()


def _is_reordering(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and node.kwargs.get("memory_format") in _REORDERED


def _lifted(program: ExportedProgram) -> set[str]:
    signature = program.graph_signature
    return {
        *signature.inputs_to_parameters,
        *signature.inputs_to_buffers,
        *signature.inputs_to_lifted_tensor_constants,
    }


def _contiguous(value: Any) -> Any:
    if has_default_layout(value):
        return value
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(value.detach().contiguous(), value.requires_grad)
    return value.contiguous()


def _reorder_input(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    first = next(other for other in graph.nodes if other.op != "placeholder")
    with graph.inserting_before(first):
        reordered = graph.call_function(
            torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
        )
    reordered.meta["val"] = node.meta["val"].contiguous()
    node.replace_all_uses_with(reordered, delete_user_cb=lambda user: user is not reordered and user.op != "output")
