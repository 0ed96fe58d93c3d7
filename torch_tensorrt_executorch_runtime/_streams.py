"""The CUDA stream on which the delegate runs, chosen by the caller."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

from torch_tensorrt_executorch_runtime import _loader

__all__ = ["caller_stream"]

_LARGEST_HANDLE = 2**64 - 1


@contextlib.contextmanager
def caller_stream(stream: Any) -> Iterator[int | None]:
    """Run every delegate call of this thread on ``stream`` while the block lasts.

    Blocks may be nested; each restores what was set before it, also when it is left by an exception. The setting
    belongs to the thread, so enter and leave a block on the same thread. The stream must belong to the device of
    the engine and stay alive until its work is done.

    Args:
        stream: A ``torch.cuda.Stream``; any object with an integer ``cuda_stream`` or with ``__cuda_stream__`` (the
            protocol of NVIDIA's Python libraries); the handle itself as an integer. ``0`` is CUDA's default stream,
            a stream like any other. ``None`` takes the choice back within the block: the delegate then uses the
            per-thread default stream, as it does outside every block.

    Yields:
        The handle that is in force, or None.

    Raises:
        TypeError: ``stream`` is none of these.
        ValueError: The handle is negative or too large, or the protocol's version is unknown.
    """
    module = _loader.native()
    handle = _handle(stream)
    before = module.get_caller_stream()
    _select(module, handle)
    try:
        yield handle
    finally:
        _select(module, before)


def _select(module: Any, handle: int | None) -> None:
    if handle is None:
        module.clear_caller_stream()
    else:
        module.set_caller_stream(handle)


def _handle(stream: Any) -> int | None:
    if stream is None:
        return None
    value = _integer(_unwrap(stream), stream)
    if not 0 <= value <= _LARGEST_HANDLE:
        raise ValueError(f"{value} is not a CUDA stream handle: expected a pointer between 0 and 2^64-1.")
    return value


def _unwrap(stream: Any) -> Any:
    if hasattr(stream, "cuda_stream"):
        return stream.cuda_stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        return stream
    version, handle = protocol() if callable(protocol) else protocol
    if version != 0:
        raise ValueError(f"__cuda_stream__ of {type(stream).__name__} has version {version}, but only 0 is known.")
    return handle


def _integer(value: Any, stream: Any) -> int:
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            return operator.index(value)
    raise TypeError(
        f"caller_stream() was given {type(stream).__name__}; expected a torch.cuda.Stream, an object with "
        "cuda_stream or __cuda_stream__, an integer handle, or None."
    )
