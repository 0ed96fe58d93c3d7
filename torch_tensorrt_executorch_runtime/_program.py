"""The contents of an ExecuTorch program file, read without ExecuTorch and without torch.

The field numbers come from the schema that ExecuTorch ships (``schema/program.fbs``, identifier ``ET12``); a test
compares this reader with ExecuTorch's own, which needs torch and seconds, and shows a traceback for a damaged file.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch_tensorrt_executorch_runtime._errors import ProgramError
from torch_tensorrt_executorch_runtime._flatbuffer import Table, root_table

__all__ = [
    "DELEGATE_CALL",
    "TENSOR_VALUE",
    "Delegate",
    "Method",
    "Program",
    "Segment",
    "Tensor",
    "device_of",
    "map_file",
    "read_header",
    "read_program",
]

_IDENTIFIER = b"ET12"
_IDENTIFIER_AT = 4
_HEADER_AT = 8
_HEADER = struct.Struct("<4sIQQQ")
_HEADER_MAGIC = b"eh00"
_SHORTEST = 8 + _HEADER.size

_SCALAR_TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool",
    15: "bfloat16", 27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
_VALUE_KINDS = {1: "none", 2: "int", 3: "bool", 4: "float", 5: "tensor", 6: "string", 10: "tensor list"}
TENSOR_VALUE = 5
_KERNEL_CALL = 1
DELEGATE_CALL = 2
_IN_SEGMENT = 1
_DEVICES = {0: "cpu", 1: "cuda"}


@dataclass(frozen=True)
class Segment:
    """A run of bytes behind the program's table of contents; ``offset`` counts from the start of the file."""

    index: int
    offset: int
    size: int


@dataclass(frozen=True)
class Tensor:
    """A method's input or output. ``kind`` tells what it is; the rest is only set for a tensor."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    dynamic: bool = False
    device: str = "cpu"


@dataclass(frozen=True)
class Delegate:
    """One part of a method that a backend runs. ``segment`` is None when its data is inside the table of contents."""

    backend: str
    compile_specs: tuple[tuple[str, bytes], ...]
    segment: int | None
    offset: int
    data: memoryview
    calls: int


@dataclass(frozen=True)
class Method:
    """One entry point: its arguments, its parts and the operators that ExecuTorch itself runs."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    delegates: tuple[Delegate, ...]
    operators: tuple[tuple[str, int], ...]
    memory: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Program:
    """A whole file."""

    methods: tuple[Method, ...]
    segments: tuple[Segment, ...]
    constant_segment: int | None
    mutable_segments: tuple[int, ...]
    named_data: tuple[tuple[str, int], ...]


def map_file(path: Path) -> memoryview:
    """Map a file."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return memoryview(b"")  # an empty file cannot be mapped
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def read_program(data: memoryview) -> Program:
    """Read a program file.

    Args:
        data: The whole file. Delegate data in the result are views into it.

    Raises:
        ProgramError: The bytes are not a complete ExecuTorch program.
    """
    table_size, segment_base = read_header(data)
    root = root_table(data[:table_size])
    segments = tuple(_segments(root, segment_base, len(data)))
    inline = [(item.data(0), item.data_position(0)) for item in root.tables(3)]
    locate = _DelegateData(data, segments, inline)
    constants = root.table(5)
    return Program(
        methods=tuple(_method(plan, locate) for plan in root.tables(1)),
        segments=segments,
        constant_segment=constants.integer(0, "I") if constants and constants.numbers(1, "Q") else None,
        mutable_segments=tuple(item.integer(0, "I") for item in root.tables(6)),
        named_data=tuple((item.text(0), item.integer(1, "I")) for item in root.tables(7)),
    )


def read_header(data: memoryview) -> tuple[int, int]:
    """Return the size of the table of contents and where the segments start.

    Raises:
        ProgramError: The bytes are not a complete ExecuTorch program.
    """
    if len(data) < _SHORTEST:
        raise ProgramError(f"The file has {len(data)} bytes, too few for an ExecuTorch program. Export it again.")
    identifier = bytes(data[_IDENTIFIER_AT : _IDENTIFIER_AT + 4])
    if identifier != _IDENTIFIER:
        raise ProgramError(
            f"This is no ExecuTorch program: bytes 4 to 8 are {identifier!r}, but {_IDENTIFIER!r} is expected. "
            "Give the .pte file that the export wrote."
        )
    magic, _, table_size, segment_base, segments_size = _HEADER.unpack(data[_HEADER_AT : _HEADER_AT + _HEADER.size])
    if magic != _HEADER_MAGIC:
        return len(data), 0  # written without segments by an early ExecuTorch
    needed = max(table_size, segment_base + segments_size)
    if needed > len(data):
        raise ProgramError(f"The file is cut off: it has {len(data)} of {needed} bytes. Copy or export it again.")
    return table_size, segment_base


def _segments(root: Table, base: int, file_size: int) -> Iterator[Segment]:
    for index, item in enumerate(root.tables(4)):
        segment = Segment(index, base + item.integer(0, "Q"), item.integer(1, "Q"))
        if segment.offset + segment.size > file_size:
            raise ProgramError(
                f"Segment {index} ends at byte {segment.offset + segment.size}, but the file has {file_size}: "
                "it is cut off. Copy or export it again."
            )
        yield segment


class _DelegateData:
    """Finds the bytes of a delegate, in a segment or in the table of contents."""

    def __init__(self, data: memoryview, segments: tuple[Segment, ...], inline: list[tuple[memoryview, int]]) -> None:
        self._data = data
        self._segments = segments
        self._inline = inline

    def find(self, reference: Table | None) -> tuple[int | None, int, memoryview]:
        """Return segment number (None for inline data), offset in the file, and the bytes."""
        in_segment = reference is not None and reference.integer(0, "b") == _IN_SEGMENT
        index = reference.integer(1, "I") if reference else 0
        known = len(self._segments if in_segment else self._inline)
        if index >= known:
            raise ProgramError(f"A delegate names data number {index}, but the file has {known}. Export it again.")
        if in_segment:
            segment = self._segments[index]
            return index, segment.offset, self._data[segment.offset : segment.offset + segment.size]
        content, offset = self._inline[index]
        return None, offset, content


def _method(plan: Table, locate: _DelegateData) -> Method:
    values = list(plan.tables(2))
    calls = _calls(plan)
    return Method(
        name=plan.text(0),
        inputs=tuple(_value(values, index) for index in plan.numbers(3)),
        outputs=tuple(_value(values, index) for index in plan.numbers(4)),
        delegates=tuple(
            _delegate(item, locate, calls[DELEGATE_CALL, index]) for index, item in enumerate(plan.tables(7))
        ),
        operators=tuple(
            (_operator_name(item), calls[_KERNEL_CALL, index]) for index, item in enumerate(plan.tables(6))
        ),
        memory=tuple(_memory(plan)),
    )


def _calls(plan: Table) -> Counter[tuple[int, int]]:
    """Count how often each operator and each delegate is called, by kind of instruction and index."""
    counts: Counter[tuple[int, int]] = Counter()
    for chain in plan.tables(5):
        for instruction in chain.tables(2):
            kind = instruction.integer(0, "B")
            call = instruction.table(1)
            if call is not None and kind in (_KERNEL_CALL, DELEGATE_CALL):
                counts[kind, call.integer(0)] += 1
    return counts


def _operator_name(item: Table) -> str:
    name, overload = item.text(0), item.text(1)
    return f"{name}.{overload}" if overload else name


def _delegate(item: Table, locate: _DelegateData, calls: int) -> Delegate:
    segment, offset, content = locate.find(item.table(1))
    specs = tuple((spec.text(0), bytes(spec.data(1))) for spec in item.tables(2))
    return Delegate(item.text(0), specs, segment, offset, content, calls)


def _value(values: list[Table], index: int) -> Tensor:
    if not 0 <= index < len(values):
        raise ProgramError(f"A method names value {index}, but it has {len(values)}: the program is damaged.")
    kind = values[index].integer(0, "B")
    tensor = values[index].table(1)
    if kind != TENSOR_VALUE or tensor is None:
        return Tensor(_VALUE_KINDS.get(kind, f"value of kind {kind}"))
    scalar_type = tensor.integer(0, "b")
    return Tensor(
        kind="tensor",
        dtype=_SCALAR_TYPES.get(scalar_type, f"scalar type {scalar_type}"),
        shape=tensor.numbers(2),
        dynamic=tensor.integer(8, "b") != 0,
        device=device_of(tensor),
    )


def device_of(tensor: Table) -> str:
    """Return where a tensor's memory is expected, ``cpu`` or such as ``cuda:0``."""
    extra = tensor.table(9)
    if extra is None or extra.integer(3, "b") == 0:
        return "cpu"
    return f"{_DEVICES.get(extra.integer(3, 'b'), 'unknown')}:{extra.integer(4, 'b')}"


def _memory(plan: Table) -> Iterator[tuple[str, int]]:
    """Yield device and size of each planned buffer; number 0 is reserved and has no memory."""
    devices = {
        item.integer(0): f"{_DEVICES.get(item.integer(1, 'b'), 'unknown')}:{item.integer(2, 'b')}"
        for item in plan.tables(9)
    }
    for index, size in enumerate(plan.numbers(8, "q")):
        if index > 0:
            yield devices.get(index, "cpu"), size
