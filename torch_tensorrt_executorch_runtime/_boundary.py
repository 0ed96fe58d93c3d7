"""What a program file says of its methods' inputs and outputs, read without ExecuTorch.

Only the inputs and outputs are read, so that the time does not grow with the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch_tensorrt_executorch_runtime._flatbuffer import Table, root_table
from torch_tensorrt_executorch_runtime._program import DELEGATE_CALL, TENSOR_VALUE, device_of, read_header

__all__ = ["Boundary", "Order", "read_boundaries"]

Order = tuple[int, ...]
"""The dimensions from the outermost to the innermost."""


@dataclass(frozen=True)
class Boundary:
    """A method's inputs and outputs.

    ``input_orders`` has one order for each input, None for a tensor in the default layout, from the first dimension to
    the last, and for other values. ``output_gpu`` is the number of the GPU that outputs are left on; None when there
    are none. ``is_one_call`` says that the method is one call of one delegate, which reads the caller's inputs where
    they are and writes the outputs, all in the default layout.
    """

    input_orders: tuple[Order | None, ...]
    output_gpu: int | None
    is_one_call: bool


def read_boundaries(data: memoryview, backend: str) -> dict[str, Boundary]:
    """Return the boundary of each method that calls ``backend``.

    Raises:
        ProgramError: The bytes are not a complete ExecuTorch program.
    """
    table_size, _ = read_header(data)
    root = root_table(data[:table_size])
    return {plan.text(0): _boundary(plan) for plan in root.tables(1) if _calls(plan, backend)}


def _calls(plan: Table, backend: str) -> bool:
    return any(delegate.text(0) == backend for delegate in plan.tables(7))


def _boundary(plan: Table) -> Boundary:
    return Boundary(
        input_orders=tuple(_order(tensor) for tensor in _tensors(plan, 3)),
        output_gpu=next((gpu for tensor in _tensors(plan, 4) if (gpu := _gpu(tensor)) is not None), None),
        is_one_call=_is_one_call(plan),
    )


def _is_one_call(plan: Table) -> bool:
    instruction = _only(instruction for chain in plan.tables(5) for instruction in chain.tables(2))
    if instruction is None or instruction.integer(0, "B") != DELEGATE_CALL or _only(plan.tables(7)) is None:
        return False
    inputs, outputs = list(_tensors(plan, 3)), list(_tensors(plan, 4))
    if None in inputs + outputs or any(map(_order, inputs + outputs)) or any(map(_is_planned, inputs)):
        return False
    call = instruction.table(1)
    arguments = () if call is None else call.numbers(1)
    return arguments == (*plan.numbers(3), *plan.numbers(4)) and len({*arguments}) == len(arguments)


def _only(tables: Iterator[Table]) -> Table | None:
    """Return the only table of its kind, without a look at more than two."""
    first = next(tables, None)
    return first if next(tables, None) is None else None


def _tensors(plan: Table, field: int) -> Iterator[Table | None]:
    """Yield the tensor of each input (field 3) or output (4), None for other values."""
    for index in plan.numbers(field):
        value = plan.item(2, index)
        yield value.table(1) if value.integer(0, "B") == TENSOR_VALUE else None


def _order(tensor: Table | None) -> Order | None:
    order = () if tensor is None else tensor.numbers(3, "B")
    return None if order == tuple(range(len(order))) else order


def _is_planned(tensor: Table | None) -> bool:
    """Whether the program has memory for a tensor, into which ExecuTorch copies an input."""
    return tensor is not None and tensor.table(6) is not None


def _gpu(tensor: Table | None) -> int | None:
    kind, _, index = ("cpu" if tensor is None else device_of(tensor)).partition(":")
    return int(index) if kind == "cuda" else None
