"""Bounds-checked reading of FlatBuffers tables, so that a damaged file gives a sentence and nothing else.

Only what ExecuTorch's program schema uses. The rules are those of the FlatBuffers binary format: offsets are relative
and unsigned, a table starts with the distance back to its vtable, a field that the vtable lacks has its default.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from torch_tensorrt_executorch_runtime._errors import ProgramError

__all__ = ["Table", "root_table"]

_VTABLE_HEADER = 4


def root_table(data: memoryview) -> Table:
    """Return the root table of a buffer.

    Raises:
        ProgramError: The buffer is damaged; so does every method of `Table`.
    """
    reader = _Reader(data)
    return Table(reader, reader.follow(0))


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.data = data

    def number(self, code: str, position: int) -> int | float:
        """Read the number of ``struct`` code ``code`` at ``position``."""
        size = struct.calcsize(f"<{code}")
        value: int | float = struct.unpack(f"<{code}", self.slice(position, size))[0]
        return value

    def unsigned(self, position: int) -> int:
        """Read 32 unsigned bits."""
        return int(self.number("I", position))

    def slice(self, position: int, size: int) -> memoryview:
        """Return ``size`` bytes from ``position``."""
        if not 0 <= position <= len(self.data) - size:
            raise ProgramError(
                f"The program is damaged: it points to bytes {position} to {position + size} of a table of contents "
                f"with {len(self.data)}. Copy or export it again."
            )
        return self.data[position : position + size]

    def follow(self, position: int) -> int:
        """Return the target of the offset at ``position``."""
        return position + self.unsigned(position)


class Table:
    """One table. A field is given by its number in the schema, counted from 0; a union has two numbers."""

    def __init__(self, reader: _Reader, position: int) -> None:
        self._reader = reader
        self._position = position
        self._vtable = position - int(reader.number("i", position))
        self._vtable_size = int(reader.number("H", self._vtable))

    def integer(self, field: int, code: str = "i", default: int = 0) -> int:
        """Return a scalar field of ``struct`` code ``code``."""
        position = self._field(field)
        return default if position is None else int(self._reader.number(code, position))

    def text(self, field: int) -> str:
        """Return a string field; empty when it is absent."""
        return bytes(self.data(field)).decode("utf-8", errors="replace")

    def data(self, field: int) -> memoryview:
        """Return a field of bytes; empty when it is absent."""
        position = self._field(field)
        if position is None:
            return memoryview(b"")
        start = self._reader.follow(position)
        return self._reader.slice(start + 4, self._reader.unsigned(start))

    def data_position(self, field: int) -> int:
        """Return where the bytes of a field start in the buffer."""
        position = self._field(field)
        return 0 if position is None else self._reader.follow(position) + 4

    def table(self, field: int) -> Table | None:
        """Return a field that is a table, or None when it is absent."""
        position = self._field(field)
        return None if position is None else Table(self._reader, self._reader.follow(position))

    def numbers(self, field: int, code: str = "i") -> tuple[int, ...]:
        """Return a field that is a vector of scalars."""
        position = self._field(field)
        if position is None:
            return ()
        start = self._reader.follow(position)
        count = self._reader.unsigned(start)
        items = self._reader.slice(start + 4, count * struct.calcsize(f"<{code}"))
        return struct.unpack(f"<{count}{code}", items)

    def tables(self, field: int) -> Iterator[Table]:
        """Yield the items of a field that is a vector of tables."""
        start, count = self._items(field)
        for index in range(count):
            yield Table(self._reader, self._reader.follow(start + 4 * index))

    def item(self, field: int, index: int) -> Table:
        """Return one item of a field that is a vector of tables."""
        start, count = self._items(field)
        if not 0 <= index < count:
            raise ProgramError(
                f"The program is damaged: it names item {index} of a list of {count}. Copy or export it again."
            )
        return Table(self._reader, self._reader.follow(start + 4 * index))

    def _items(self, field: int) -> tuple[int, int]:
        """Return where the items of a vector of tables start, and how many there are."""
        position = self._field(field)
        if position is None:
            return 0, 0
        start = self._reader.follow(position)
        count = self._reader.unsigned(start)
        self._reader.slice(start + 4, count * 4)  # refuses a count that the buffer cannot hold before any work
        return start + 4, count

    def _field(self, field: int) -> int | None:
        entry = _VTABLE_HEADER + 2 * field
        if entry + 2 > self._vtable_size:
            return None
        offset = int(self._reader.number("H", self._vtable + entry))
        return self._position + offset if offset else None
