"""The CMake package as a user meets it: configure, build and run a project against the installed wheels."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import torch_tensorrt_executorch_runtime as package

HERE = Path(__file__).parent
CMAKE = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "cmake"


def cmake(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CMAKE, *map(str, arguments)], capture_output=True, text=True, check=False)


def configure(source: Path, build: Path, **options: str) -> subprocess.CompletedProcess[str]:
    given = {"CMAKE_PREFIX_PATH": package.cmake_prefix_path(), "CMAKE_BUILD_TYPE": "Release"} | options
    return cmake("-S", source, "-B", build, *(f"-D{name}={value}" for name, value in given.items()))


def build(source: Path, folder: Path, **options: str) -> Path:
    configured = configure(source, folder, **options)
    assert configured.returncode == 0, configured.stderr
    built = cmake("--build", folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "consumer"


def run(program: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program], capture_output=True, text=True, check=False, env=environment)


def runpath(program: Path) -> list[str]:
    text = subprocess.run(["readelf", "-dW", program], capture_output=True, text=True, check=True).stdout
    return [entry for found in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text) for entry in found.split(":")]


def needed(program: Path) -> list[str]:
    text = subprocess.run(["readelf", "-dW", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


WAYS = {
    "plainly": {},
    "as_needed": {"CMAKE_EXE_LINKER_FLAGS": "-Wl,--as-needed"},
    "gc_sections": {
        "CMAKE_CXX_FLAGS": "-ffunction-sections -fdata-sections",
        "CMAKE_EXE_LINKER_FLAGS": "-Wl,--as-needed,--gc-sections",
    },
    "lto": {"CMAKE_CXX_FLAGS": "-flto", "CMAKE_EXE_LINKER_FLAGS": "-flto -Wl,--as-needed"},
    "with_a_stream_guard": {"CMAKE_CXX_FLAGS": "-DCONSUMER_USES_CALLER_STREAM"},
    "without_finding_executorch": {"CONSUMER_FINDS_EXECUTORCH": "OFF"},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_delegate_is_registered_when_linked(tmp_path: Path, way: str) -> None:
    done = run(build(HERE, tmp_path, **WAYS[way]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path(done.stdout.strip()).samefile(package.library_path())


def test_the_example_runs_a_program_on_the_cpu(tmp_path: Path, programs: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "cpp_runner"
    build(example, tmp_path / "build", CMAKE_PREFIX_PATH="", Python_EXECUTABLE=sys.executable)
    ones = tmp_path / "ones.bin"
    ones.write_bytes(struct.pack("<32f", *[1.0] * 32))
    short = tmp_path / "short.bin"
    short.write_bytes(struct.pack("<16f", *[1.0] * 16))
    runner = [tmp_path / "build" / "cpp_runner", programs / "plain.pte"]
    done = subprocess.run([*runner, ones, short], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    swapped = subprocess.run([*runner, short, ones], capture_output=True, text=True, check=False)
    assert swapped.returncode != 0


def test_the_runpath_leads_to_both_wheels_and_can_be_left_out(tmp_path: Path) -> None:
    with_path = runpath(build(HERE, tmp_path / "on"))
    assert str(package.library_path().parent) in with_path
    without = build(
        HERE, tmp_path / "off", EXECUTORCH_BACKEND_TENSORRT_EMBED_RUNPATH="OFF", CMAKE_SKIP_BUILD_RPATH="ON"
    )
    assert str(package.library_path().parent) not in runpath(without)
    assert "libexecutorch_backend_tensorrt.so" in needed(without)
    assert run(without).returncode != 0
    assert run(without, LD_LIBRARY_PATH=str(package.library_path().parent)).returncode == 0


def test_a_consumer_without_executorch_is_told_what_to_install(tmp_path: Path) -> None:
    copy = tmp_path / "site" / "torch_tensorrt_executorch_runtime"
    shutil.copytree(package.library_path().parents[1], copy)
    done = configure(HERE, tmp_path / "build", CMAKE_PREFIX_PATH=str(copy), CONSUMER_FINDS_EXECUTORCH="OFF")
    assert done.returncode != 0
    assert "needs ExecuTorch 1.5" in done.stderr
    assert 'pip install "executorch>=1.5.1,<1.6"' in " ".join(done.stderr.split())


def test_a_consumer_of_a_damaged_package_is_told_what_to_do(tmp_path: Path) -> None:
    copy = tmp_path / "torch_tensorrt_executorch_runtime"
    shutil.copytree(package.library_path().parents[1], copy)
    (copy / "lib" / "libexecutorch_backend_tensorrt.so").unlink()
    prefix = package.cmake_prefix_path().split(";")[0]
    done = configure(HERE, tmp_path / "build", CMAKE_PREFIX_PATH=f"{prefix};{copy}")
    assert done.returncode != 0
    assert "libexecutorch_backend_tensorrt.so is missing" in " ".join(done.stderr.split())


def test_missing_copy_kernels_are_mentioned(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.28)\nproject(x LANGUAGES CXX)\n"
        "add_library(executorch::runtime SHARED IMPORTED)\n"
        "set_target_properties(executorch::runtime PROPERTIES IMPORTED_LOCATION /nowhere/libexecutorch.so)\n"
        "find_package(executorch_backend_tensorrt REQUIRED)\n"
    )
    done = configure(tmp_path, tmp_path / "build")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stderr.split())
    assert "executorch::kernels_optimized is not available" in text
    assert "find_package(executorch REQUIRED COMPONENTS kernels_optimized)" in text


def test_another_minor_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.28)\nproject(x LANGUAGES CXX)\n"
        "find_package(executorch_backend_tensorrt 0.1 REQUIRED)\n"
    )
    done = configure(tmp_path, tmp_path / "build")
    assert done.returncode != 0
    assert f"version: {package.__version__}" in done.stderr
