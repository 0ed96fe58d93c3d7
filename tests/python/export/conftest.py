"""Loads Torch-TensorRT once, and leaves no trace of an export in the next test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _fixed_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _own_backend_lookup() -> Iterator[None]:
    yield
    from torch_tensorrt_executorch_runtime.export._backend_lookup import restore_other_backend

    restore_other_backend()
