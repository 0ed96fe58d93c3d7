"""Finds the delegates' blobs in a .pte by their bytes alone, so that tests do not trust the code under test."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HEADER = struct.Struct("<4sIIIQ8s")


@dataclass(frozen=True)
class Blob:
    """One engine in a file: where the blob starts, its metadata and the engine's bytes."""

    offset: int
    metadata: dict[str, Any]
    engine: bytes

    @property
    def digest(self) -> str:
        return digest_of(self.engine)


def find_blobs(path: Path) -> list[Blob]:
    """Return every blob of the file in the order of its segments."""
    data = path.read_bytes()
    found = (_read(data, offset) for offset in range(0, len(data), 16) if data[offset : offset + 3] == b"TR0")
    return [blob for blob in found if blob is not None]


def _read(data: bytes, offset: int) -> Blob | None:
    """Read the blob at an offset; None where the bytes only look like one."""
    if offset + _HEADER.size > len(data):
        return None
    magic, metadata_offset, metadata_size, engine_offset, engine_size, _ = _HEADER.unpack_from(data, offset)
    if magic not in (b"TR01", b"TR02") or offset + engine_offset + engine_size > len(data):
        return None
    start = offset + metadata_offset
    metadata = json.loads(data[start : start + metadata_size])
    start = offset + engine_offset
    return Blob(offset, metadata, data[start : start + engine_size])


def delegate_ids(path: Path, method: str = "forward") -> list[str]:
    """Return the backend ids of a method's delegates in the order in which it lists them."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    program = deserialize_pte_binary(path.read_bytes()).program
    plan = next(plan for plan in program.execution_plan if plan.name == method)
    return [delegate.id for delegate in plan.delegates]


def digest_of(engine: bytes) -> str:
    """Return the digest of an engine as the format describes it."""
    piece = 1 << 20
    if len(engine) <= piece:
        return hashlib.sha256(engine).hexdigest()
    digests = (hashlib.sha256(engine[start : start + piece]).digest() for start in range(0, len(engine), piece))
    return hashlib.sha256(b"".join(digests)).hexdigest()
