"""The compiled kernels that a program carries as named data; ``docs/format.md`` states the layout."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

__all__ = ["KernelKey", "are_whole", "parse_key"]

_KEY = re.compile(r"tensorrt_kernels/([0-9a-f]{64})/([^/]*)/(.*)", re.DOTALL)
_MAGIC = b"TRTKC01\n"
_SEAL_SIZE = len(_MAGIC) + hashlib.sha256().digest_size


class KernelKey(NamedTuple):
    """Of which engine kernels are, and which TensorRT-RTX compiled them for which GPU model."""

    engine_sha256: str
    version: str
    gpu: str


def parse_key(key: str) -> KernelKey | None:
    """Read the key of named data; None when it is not one of compiled kernels."""
    match = _KEY.fullmatch(key)
    return None if match is None else KernelKey(*match.groups())


def are_whole(data: bytes | memoryview) -> bool:
    """Say whether the digest before the kernels is theirs."""
    seal, kernels = bytes(data[:_SEAL_SIZE]), data[_SEAL_SIZE:]
    return len(kernels) > 0 and seal == _MAGIC + hashlib.sha256(kernels).digest()
