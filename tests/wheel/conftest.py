from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

DISTRIBUTION = "torch-tensorrt-executorch-runtime"


@pytest.fixture(scope="session")
def wheel() -> importlib.metadata.Distribution:
    """The installed distribution: these tests are about what a user gets."""
    return importlib.metadata.distribution(DISTRIBUTION)


@pytest.fixture(scope="session")
def package(wheel: importlib.metadata.Distribution) -> Path:
    """The folder of the installed package."""
    return Path(str(wheel.locate_file("torch_tensorrt_executorch_runtime")))


@pytest.fixture(scope="session")
def library(package: Path) -> Path:
    """The delegate library."""
    return package / "lib" / "libexecutorch_backend_tensorrt.so"
