"""Which operators of a program no kernel of the installed ExecuTorch runs."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["missing_kernels"]


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
