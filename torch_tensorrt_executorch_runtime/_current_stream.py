"""PyTorch's current stream, for its work that goes before or after an engine's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_tensorrt_executorch_runtime import _loader

__all__ = ["keep_for", "stream_to_follow"]

# It takes a tenth of what torch.cuda.current_stream() takes. A PyTorch for the CPU alone does not have it.
_current_handle = getattr(torch._C, "_cuda_getCurrentRawStream", None)

# CUDA's other name of its default stream. PyTorch knows that by 0 only, and takes odd handles for numbers of its own.
_LEGACY = 1


def stream_to_follow(device: int) -> Any:
    """Return the caller's stream on GPU ``device`` as PyTorch's; None when PyTorch uses it already.

    None without a choice of the caller's, too: the delegate then waits for what it runs.
    """
    handle = _loader.native().get_caller_stream()
    if handle is None or _current_handle is None:
        return None
    if handle == _LEGACY:
        handle = 0
    if _current_handle(device) == handle:
        return None
    return torch.cuda.ExternalStream(handle, device=device)  # type: ignore[no-untyped-call]


def keep_for(stream: Any, values: Iterable[Any]) -> None:
    """Let PyTorch give the memory of tensors on the GPU to nobody else before ``stream`` has passed what uses them.

    Otherwise it would reuse a tensor that is dropped in the order of the stream for which it was made, only.
    """
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_cuda:
            value.record_stream(stream)
