"""The digest of an engine is the same whoever computes it, and from whatever kind of buffer."""

from __future__ import annotations

import hashlib

import pytest

from torch_tensorrt_executorch_runtime._digest import PIECE_BYTES, engine_digest


def engine_of(size: int) -> bytes:
    return bytes((i * 131 + 7 + (i >> 13)) & 255 for i in range(size))


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES])
def test_is_the_sha256_of_a_small_engine(size):
    engine = engine_of(size)

    assert engine_digest(engine) == hashlib.sha256(engine).hexdigest()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_is_the_one_that_the_delegate_computes(kind):
    engine = engine_of(3 * PIECE_BYTES + 17)

    assert engine_digest(kind(engine)) == "172aef2a22b57d4d805897fdd2e4ec118880481fbe3fa0522531a1af00a91d52"


def test_changes_with_every_piece():
    engine = bytearray(engine_of(2 * PIECE_BYTES + 1))
    digests = {engine_digest(engine)}
    for piece in range(3):
        engine[piece * PIECE_BYTES] ^= 1
        digests.add(engine_digest(engine))

    assert len(digests) == 4
