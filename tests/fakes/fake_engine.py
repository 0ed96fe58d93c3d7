"""Writes engines that the fake TensorRT libraries run, and delegate blobs around them.

The bytes are described in ``tensorrt/description.h``, what the operations compute in ``tensorrt/functions.h``.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RTX_VERSION = (1, 6, 1)
TENSORRT_VERSION = (11, 4, 0)


@dataclass(frozen=True)
class Tensor:
    """One input or output; ``profile`` is ``(min, opt, max)`` of a dynamic input."""

    name: str
    is_input: bool
    dtype: str
    shape: Sequence[int]
    profile: tuple[Sequence[int], Sequence[int], Sequence[int]] | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        entry = {
            "name": self.name,
            "mode": "input" if self.is_input else "output",
            "dtype": self.dtype,
            "shape": list(self.shape),
        }
        if self.profile is not None:
            entry["profiles"] = [dict(zip(("min", "opt", "max"), map(list, self.profile), strict=True))]
        return {**entry, **self.properties}


def operation(output: str, op: str, inputs: Sequence[str], **more: Any) -> dict[str, Any]:
    """How one output is made, such as ``operation("y", "linear", ["x"], constant=1)``."""
    return {"output": output, "op": op, "inputs": list(inputs), **more}


def engine_bytes(
    tensors: Sequence[Tensor],
    operations: Sequence[Mapping[str, Any]],
    *,
    rtx: bool = True,
    version: tuple[int, int, int] | None = None,
    **properties: Any,
) -> bytes:
    """The serialized engine of one of the two families."""
    major, minor, patch = version or (RTX_VERSION if rtx else TENSORRT_VERSION)
    text = json.dumps({"tensors": [t.to_json() for t in tensors], "operations": list(operations), **properties})
    return struct.pack("<4sI", b"vtrt" if rtx else b"ftrt", major * 10000 + minor * 100 + patch) + text.encode()


def compiled_kernels(engine: bytes, *, gpu: str = "Fake GPU 0") -> tuple[str, bytes]:
    """The key and the bytes with which a program carries an engine's kernels: those that a load compiles."""
    version = ".".join(map(str, RTX_VERSION))
    kernels = f"fake runtime cache {version} 9.0\nfor every shape\n".encode()
    key = f"tensorrt_kernels/{hashlib.sha256(engine).hexdigest()}/{version}.120/{gpu}"
    return key, b"TRTKC01\n" + hashlib.sha256(kernels).digest() + kernels


def blob_bytes(
    tensors: Sequence[Tensor],
    engine: bytes,
    *,
    aliases: Sequence[Mapping[str, str]] = (),
    device_id: int = 0,
    **metadata: Any,
) -> bytes:
    """The delegate blob: inputs first, in the order given, then outputs."""
    ordered = [t for t in tensors if t.is_input] + [t for t in tensors if not t.is_input]
    document = {
        "io_bindings": [
            {"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "is_input": t.is_input} for t in ordered
        ],
        "aliased_io": list(aliases),
        "hardware_compatible": False,
        "device_id": device_id,
        "serialized_metadata": "",
        "target_platform": "linux_x86_64",
        "engine_sha256": hashlib.sha256(engine).hexdigest(),
        **metadata,
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    offset = -(-(32 + len(text)) // 16) * 16
    magic = b"TR02" if aliases else b"TR01"
    header = struct.pack("<4sIIIQ8s", magic, 32, len(text), offset, len(engine), b"\x01" + bytes(7))
    return (header + text).ljust(offset, b"\0") + engine
