"""The digest that blobs record of their engine."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

__all__ = ["PIECE_BYTES", "engine_digest"]

PIECE_BYTES = 1 << 20
_MOST_THREADS = 8


def engine_digest(engine: bytes | bytearray | memoryview) -> str:
    """Return the digest in hexadecimal, computed on several threads for a large engine.

    An engine of up to 1 MiB has its SHA-256. A larger one has the SHA-256 of the digests of its pieces of 1 MiB, one
    after the other; the last piece may be shorter.
    """
    view = memoryview(engine).cast("B")
    if len(view) <= PIECE_BYTES:
        return hashlib.sha256(view).hexdigest()
    pieces = (view[start : start + PIECE_BYTES] for start in range(0, len(view), PIECE_BYTES))
    with ThreadPoolExecutor(_MOST_THREADS) as threads:
        return hashlib.sha256(b"".join(threads.map(_sha256, pieces))).hexdigest()


def _sha256(piece: memoryview) -> bytes:
    return hashlib.sha256(piece).digest()
