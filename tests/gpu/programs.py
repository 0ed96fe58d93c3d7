"""Loads and runs programs as a user does: `executorch.runtime` with our delegate registered."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.runtime import Runtime
from torch import Tensor

import torch_tensorrt_executorch_runtime  # noqa: F401  registers the delegate

from .builds import kernel_library


def load(path: Path, method: str = "forward") -> Any:
    """Load one method of a program."""
    return Runtime.get().load_program(path).load_method(method)


def load_with_test_kernels(path: Path, method: str = "forward") -> Any:
    """Load a method whose operators on the CPU need the kernels of these tests."""
    ctypes.CDLL(str(kernel_library()))
    return load(path, method)


def wrong_elements(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> int:
    """Count the elements that are not equal; a whole tensor where shape or type differs."""
    wrong = abs(len(actual) - len(expected))
    for a, b in zip(actual, expected, strict=False):
        if a.shape != b.shape or a.dtype != b.dtype:
            wrong += max(1, b.numel())
        else:
            wrong += int((a != b).sum())
    return wrong


def microseconds(method: Any, inputs: Sequence[Tensor], *, repeat: int = 200) -> float:
    """Return the median time of a call with host tensors, after 20 calls that do not count."""
    times = []
    for _ in range(20 + repeat):
        start = time.perf_counter()
        method.execute(list(inputs))
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times[20:])


def short_name(dtype: torch.dtype) -> str:
    """Return ``float16`` for ``torch.float16``."""
    return str(dtype).removeprefix("torch.")
