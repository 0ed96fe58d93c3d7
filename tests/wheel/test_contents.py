from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement

from support.process import PACKAGE, run_code

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
Distribution = importlib.metadata.Distribution


def test_the_version_is_that_of_the_project_everywhere(wheel: Distribution) -> None:
    result = run_code(f"import {PACKAGE} as p; print(p.__version__, p.delegate_info()['library_version'])")
    assert wheel.version == PROJECT["version"]
    assert result.out.split() == [PROJECT["version"]] * 2, result.err


def test_the_tag_names_this_python_and_linux(wheel: Distribution) -> None:
    text = wheel.read_text("WHEEL")
    assert text is not None
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert f"Tag: {python}-{python}-{platform}" in text or f"Tag: {python}-{python}-manylinux" in text
    assert "Root-Is-Purelib: false" in text


def test_the_pins_are_those_of_the_project(wheel: Distribution) -> None:
    found = {(item.name, str(item.specifier)) for item in map(Requirement, wheel.requires or []) if not item.marker}
    wanted = {(item.name, str(item.specifier)) for item in map(Requirement, PROJECT["dependencies"])}
    assert found == wanted
    assert ("executorch", "<1.6,>=1.5.1") in found
    assert not {name for name, _ in found} & {"torch", "torch-tensorrt", "tensorrt"}


@pytest.mark.parametrize("extra", ["rtx", "tensorrt", "export"])
def test_each_machine_has_its_extra(wheel: Distribution, extra: str) -> None:
    assert extra in (wheel.metadata.get_all("Provides-Extra") or [])
    assert any(f"extra == '{extra}'" in item.replace('"', "'") for item in wheel.requires or [])


def test_the_installed_executorch_meets_the_pin(wheel: Distribution) -> None:
    for item in map(Requirement, wheel.requires or []):
        if item.name == "executorch":
            assert item.specifier.contains(importlib.metadata.version("executorch"))


def test_headers_cmake_package_types_and_licence_are_there(wheel: Distribution, package: Path) -> None:
    cmake = package / "lib" / "cmake" / "executorch_backend_tensorrt"
    assert (cmake / "executorch_backend_tensorrtConfig.cmake").is_file()
    assert (cmake / "executorch_backend_tensorrtConfigVersion.cmake").is_file()
    assert (package / "include" / "executorch" / "backends" / "tensorrt" / "caller_stream.h").is_file()
    assert (package / "py.typed").is_file()
    assert (package / "_native.pyi").is_file()
    assert wheel.metadata["License-Expression"] == "BSD-3-Clause"
    assert any(str(file).endswith("licenses/LICENSE") for file in wheel.files or [])


def test_nothing_else_is_installed(wheel: Distribution) -> None:
    tops = {Path(str(file)).parts[0] for file in wheel.files or []}
    assert {top for top in tops if top != ".." and not top.endswith(".dist-info")} == {PACKAGE}
    suffixes = {Path(str(file)).suffix for file in wheel.files or [] if PACKAGE in Path(str(file)).parts}
    assert suffixes <= {".py", ".pyc", ".pyi", ".typed", ".so", ".cmake", ".h"}
    assert not any("tests" in Path(str(file)).parts for file in wheel.files or [])


def test_the_whole_package_is_small(wheel: Distribution) -> None:
    size = sum(Path(str(file.locate())).stat().st_size for file in wheel.files or [] if file.suffix != ".pyc")
    assert size < 4_000_000


def test_commands_and_cmake_root_are_declared(wheel: Distribution) -> None:
    points = {(point.group, point.name): point.value for point in wheel.entry_points}
    assert points["console_scripts", "trt-executorch"] == f"{PACKAGE}.cli:main"
    assert points["cmake.root", "executorch_backend_tensorrt"] == PACKAGE


def test_the_documented_prefix_path_names_both_packages() -> None:
    result = run_code(
        f"import {PACKAGE} as p; print(p.cmake_prefix_path())",
        env={"TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION": "1"},
    )
    executorch, ours = result.out.strip().split(";")
    assert (Path(executorch) / "executorch-config.cmake").is_file()
    assert (Path(ours) / "lib" / "cmake").is_dir()


def test_registers_with_the_installed_executorch_in_an_empty_environment(tmp_path: Path) -> None:
    code = (
        f"import {PACKAGE}; from executorch.runtime import Runtime; "
        "registry = Runtime.get().backend_registry; "
        "assert registry.registered_backend_names.count('TensorRTBackend') == 1; "
        "maps = open('/proc/self/maps').read().split(); "
        "print(len({line for line in maps if line.endswith('/libexecutorch.so')}))"
    )
    done = subprocess.run(
        ["env", "-i", sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1"


def test_maps_no_torch_and_no_cuda_or_tensorrt_library() -> None:
    result = run_code(f"import {PACKAGE}; print(open('/proc/self/maps').read())")
    assert result.code == 0, result.err
    for name in ("libtorch", "libc10", "libcudart", "libnvinfer", "libtensorrt_rtx"):
        assert name not in result.out, name
