"""PyTorch's current stream, for its work that goes before or after an engine's."""

from __future__ import annotations

from typing import Any

import torch

from torch_tensorrt_executorch_runtime import _loader

__all__ = ["stream_to_follow"]

# It takes a tenth of what torch.cuda.current_stream() takes. A PyTorch for the CPU alone does not have it.
_CURRENT = "_cuda_getCurrentRawStream"


def stream_to_follow(device: int) -> Any:
    """Return the caller's stream on GPU ``device`` as PyTorch's; None when PyTorch uses it already.

    None without a choice of the caller's, too: the delegate then waits for what it runs.
    """
    handle = _loader.native().get_caller_stream()
    if handle is None:
        return None
    current = getattr(torch._C, _CURRENT, None)
    if current is None or current(device) == handle:
        return None
    return torch.cuda.ExternalStream(handle, device=device)  # type: ignore[no-untyped-call]
