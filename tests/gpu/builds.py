"""Builds the small CMake projects of these tests; run_all.sh builds them beforehand and names them by variables."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def cpp_runner() -> Path:
    """Return the program of examples/cpp_runner."""
    return _built("TTER_CPP_RUNNER", "examples/cpp_runner", "cpp_runner")


def slot_probe() -> Path:
    """Return the program of tests/gpu/slots."""
    return _built("TTER_SLOT_PROBE", "tests/gpu/slots", "slot_probe")


def kernel_library() -> Path:
    """Return the library of tests/gpu/kernels."""
    return _built("TTER_TEST_KERNELS", "tests/gpu/kernels", "libtest_kernels.so")


@functools.cache
def _built(variable: str, source: str, product: str) -> Path:
    if given := os.environ.get(variable):
        return Path(given)
    folder = tempfile.mkdtemp()
    beside_python = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cmake = shutil.which("cmake", path=beside_python)
    assert cmake, "cmake is needed to build " + source
    subprocess.run([cmake, "-S", ROOT / source, "-B", folder, f"-DPython_EXECUTABLE={sys.executable}"], check=True)
    subprocess.run([cmake, "--build", folder, "--parallel"], check=True)
    return Path(folder) / product
