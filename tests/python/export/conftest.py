"""Keeps exports apart from one another, and fast."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import torch
from torch._export import utils


@pytest.fixture(autouse=True, scope="session")
def _operators_are_collected_once() -> Iterator[None]:
    # PyTorch looks up all of its operators dozens of times per export, which takes half of a small export's time.
    original = utils._materialize_cpp_cia_ops
    utils._materialize_cpp_cia_ops = functools.cache(original)
    yield
    utils._materialize_cpp_cia_ops = original


@pytest.fixture(autouse=True)
def _fixed_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _own_backend_lookup() -> Iterator[None]:
    yield
    from torch_tensorrt_executorch_runtime.export._backend_lookup import restore_other_backend

    restore_other_backend()
