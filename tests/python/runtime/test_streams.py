from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

import torch_tensorrt_executorch_runtime as package
from torch_tensorrt_executorch_runtime import _native, caller_stream


class Protocol:
    """An object with NVIDIA's stream protocol."""

    def __init__(self, version: int, handle: int) -> None:
        self._answer = (version, handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return self._answer


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (0x1234, 0x1234),
        (0, 0),
        (2**64 - 1, 2**64 - 1),
        (SimpleNamespace(cuda_stream=7), 7),
        (Protocol(0, 9), 9),
        (SimpleNamespace(__cuda_stream__=(0, 11)), 11),
    ],
)
def test_a_block_selects_the_stream_and_takes_it_back(stream: Any, handle: int) -> None:
    assert _native.get_caller_stream() is None
    with caller_stream(stream) as selected:
        assert selected == handle
        assert _native.get_caller_stream() == handle
    assert _native.get_caller_stream() is None


def test_blocks_may_be_nested_and_none_takes_the_choice_back_within() -> None:
    with caller_stream(1):
        with caller_stream(None) as selected:
            assert selected is None
            assert _native.get_caller_stream() is None
            with caller_stream(0):
                assert _native.get_caller_stream() == 0
            assert _native.get_caller_stream() is None
        assert _native.get_caller_stream() == 1
    assert _native.get_caller_stream() is None


def test_an_exception_restores_what_was_set_before() -> None:
    with caller_stream(5):
        with pytest.raises(KeyError), caller_stream(6):
            raise KeyError
        assert _native.get_caller_stream() == 5


def test_the_choice_belongs_to_the_thread() -> None:
    seen: list[int | None] = []
    with caller_stream(5):
        thread = threading.Thread(target=lambda: seen.append(_native.get_caller_stream()))
        thread.start()
        thread.join()
    assert seen == [None]


@pytest.mark.parametrize("stream", ["0", 1.0, True, object(), SimpleNamespace(cuda_stream="x")])
def test_refuses_what_is_no_stream(stream: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a torch\.cuda\.Stream, an object with cuda_stream"):
        caller_stream(stream).__enter__()
    assert _native.get_caller_stream() is None


@pytest.mark.parametrize("handle", [-1, 2**64])
def test_refuses_a_handle_out_of_range(handle: int) -> None:
    with pytest.raises(ValueError, match=f"{handle} is not a CUDA stream handle"):
        caller_stream(handle).__enter__()


def test_refuses_an_unknown_version_of_the_protocol() -> None:
    with pytest.raises(ValueError, match="__cuda_stream__ of Protocol has version 1, but only 0 is known"):
        caller_stream(Protocol(1, 9)).__enter__()


def test_the_name_is_public() -> None:
    assert package.caller_stream is caller_stream
