"""Tests that need an NVIDIA GPU: skipped with a reason without one, recorded when TTER_RESULTS names a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `models`

from .results import Recorder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, and torch.cuda finds none"))


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    """Yield the recorder of this session; write its file at the end when TTER_RESULTS is set."""
    recorder = Recorder()
    yield recorder
    if path := os.environ.get("TTER_RESULTS"):
        recorder.write(Path(path))
