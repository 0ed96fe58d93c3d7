"""Tests that need an NVIDIA GPU: skipped with a reason without one, recorded when TTER_RESULTS names a file."""

from __future__ import annotations

import os
import sys
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
def recorder() -> Recorder:
    """Return the recorder of this session, which writes the file that TTER_RESULTS names."""
    path = os.environ.get("TTER_RESULTS")
    return Recorder(Path(path) if path else None)
