"""The order in which the dimensions of a program's inputs lie in memory, read from the file without ExecuTorch.

Only the inputs are read, so that the time does not grow with the program.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from torch_tensorrt_executorch_runtime._flatbuffer import Table, root_table
from torch_tensorrt_executorch_runtime._program import _read_header

__all__ = ["Order", "map_file", "read_input_orders"]

Order = tuple[int, ...]
"""The dimensions from the outermost to the innermost."""

_TENSOR = 5


def map_file(path: str | Path) -> memoryview:
    """Map a file that is not empty."""
    with Path(path).open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def read_input_orders(data: memoryview, backend: str) -> dict[str, tuple[Order | None, ...]]:
    """Return the orders of the inputs of each method that calls ``backend``.

    The order is None for a tensor in the default layout, from the first dimension to the last, and for other values.

    Raises:
        ProgramError: The bytes are not a complete ExecuTorch program.
    """
    table_size, _ = _read_header(data)
    root = root_table(data[:table_size])
    return {plan.text(0): _orders(plan) for plan in root.tables(1) if _calls(plan, backend)}


def _calls(plan: Table, backend: str) -> bool:
    return any(delegate.text(0) == backend for delegate in plan.tables(7))


def _orders(plan: Table) -> tuple[Order | None, ...]:
    return tuple(_order(plan.item(2, index)) for index in plan.numbers(3))


def _order(value: Table) -> Order | None:
    tensor = value.table(1) if value.integer(0, "B") == _TENSOR else None
    order = () if tensor is None else tensor.numbers(3, "B")
    return None if order == tuple(range(len(order))) else order
