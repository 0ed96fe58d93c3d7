"""PyTorch's current stream, for its work that goes before or after an engine's."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from torch_tensorrt_executorch_runtime import _loader

__all__ = ["on_callers_stream"]

# It takes a tenth of what torch.cuda.current_stream() takes. A PyTorch for the CPU alone does not have it.
_CURRENT = "_cuda_getCurrentRawStream"


def on_callers_stream(device: int) -> contextlib.AbstractContextManager[Any]:
    """Make the caller's stream PyTorch's current one on GPU ``device``.

    Without a choice of the caller's nothing changes: the delegate then waits for what it runs.
    """
    handle = _loader.native().get_caller_stream()
    current = getattr(torch._C, _CURRENT, None)
    if handle is None or current is None or current(device) == handle:
        return contextlib.nullcontext()
    stream = torch.cuda.ExternalStream(handle, device=device)  # type: ignore[no-untyped-call]
    return torch.cuda.stream(stream)
