"""Which operators of a program no kernel of the installed ExecuTorch runs, or runs right."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime.export._twin import aten_target

__all__ = ["misplaces_hits", "missing_kernels"]


def missing_kernels(operators: Iterable[str]) -> list[str]:
    """Return those of ``operators`` for which ExecuTorch's Python runtime has no kernel.

    Args:
        operators: Names as they stand in the program, such as ``aten::erfinv.out``.

    Returns:
        The names, sorted; none when the runtime cannot be asked here.
    """
    try:
        # Only here: an export does not need the runtime, and some installations have none.
        from executorch.runtime import Runtime  # noqa: PLC0415
    except ImportError:
        return []
    known = set(Runtime.get().operator_registry.operator_names)
    return sorted(set(operators) - known)


def misplaces_hits(program: ExportedProgram) -> bool:
    """Say whether a lowered program looks for non-zero elements of a tensor with two or more dimensions.

    The kernel of ExecuTorch 1.5 mixes up their indices: ``[[1, 2], [0, 0]]`` instead of ``[[1, 0], [2, 0]]``.
    """
    return any(
        aten_target(node.target) is torch.ops.aten.nonzero.default and node.all_input_nodes[0].meta["val"].dim() > 1
        for node in program.graph.nodes
        if node.op == "call_function"
    )
