from __future__ import annotations

import fnmatch
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
C_AND_CPP_RUNTIME = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libstdc++.so.6",
                     "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}  # fmt: skip
EXPORTED = {
    "tensorrt_executorch_add_search_folder",
    "tensorrt_executorch_backend_owner",
    "tensorrt_executorch_bare_create",
    "tensorrt_executorch_bare_destroy",
    "tensorrt_executorch_bare_latencies",
    "tensorrt_executorch_bare_no_graphs_because",
    "tensorrt_executorch_bare_total",
    "tensorrt_executorch_clear_caller_stream",
    "tensorrt_executorch_compile_kernels",
    "tensorrt_executorch_describe",
    "tensorrt_executorch_device_allocator_reason",
    "tensorrt_executorch_direct_create",
    "tensorrt_executorch_direct_destroy",
    "tensorrt_executorch_direct_move",
    "tensorrt_executorch_direct_run",
    "tensorrt_executorch_get_caller_stream",
    "tensorrt_executorch_last_load",
    "tensorrt_executorch_owns_device_allocator",
    "tensorrt_executorch_registration_error",
    "tensorrt_executorch_set_caller_stream",
    "tensorrt_executorch_version",
    "tensorrt_executorch_visit_stats",
}


def dynamic_section(file: Path) -> dict[str, list[str]]:
    """Read the entries of an ELF file's dynamic section, by tag."""
    text = subprocess.run(["readelf", "-dW", file], capture_output=True, text=True, check=True).stdout
    entries: dict[str, list[str]] = {}
    for tag, value in re.findall(r"\((\w+)\)\s+.*\[(.*)\]", text):
        entries.setdefault(tag, []).append(value)
    return entries


def exported(file: Path) -> set[str]:
    """Names of the symbols that a library defines for others."""
    text = subprocess.run(["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in text.splitlines()}


@pytest.fixture
def module(package: Path) -> Path:
    (file,) = package.glob("_native*.so")
    return file


def test_the_library_needs_executorch_and_the_cpp_runtime_and_nothing_else(library: Path) -> None:
    needed = set(dynamic_section(library)["NEEDED"])
    assert needed - C_AND_CPP_RUNTIME == {"libexecutorch.so"}


def test_the_module_needs_the_library_too(module: Path) -> None:
    needed = set(dynamic_section(module)["NEEDED"])
    assert needed - C_AND_CPP_RUNTIME == {"libexecutorch.so", "libexecutorch_backend_tensorrt.so"}


def test_search_paths_are_relative_to_the_file(library: Path, module: Path) -> None:
    assert dynamic_section(library)["RUNPATH"] == ["$ORIGIN/../../executorch/lib"]
    assert dynamic_section(module)["RUNPATH"] == ["$ORIGIN/lib:$ORIGIN/../executorch/lib"]
    assert "RPATH" not in dynamic_section(library) | dynamic_section(module)


def test_the_library_has_a_name_of_its_own(library: Path) -> None:
    assert dynamic_section(library)["SONAME"] == ["libexecutorch_backend_tensorrt.so"]


def test_only_the_listed_functions_are_exported(library: Path) -> None:
    assert exported(library) == EXPORTED
    (pattern,) = re.findall(r"global:\s*([^;]+);", (ROOT / "cmake" / "exports.map").read_text())
    assert all(fnmatch.fnmatch(name, pattern.strip()) for name in EXPORTED)


def test_the_module_exports_its_entry_point_alone(module: Path) -> None:
    assert {name for name in exported(module) if not name.startswith("_Z")} == {"PyInit__native"}


def test_no_path_of_the_building_machine_is_left_in_the_binaries(library: Path, module: Path) -> None:
    for file in (library, module):
        assert str(ROOT).encode() not in file.read_bytes(), file


def test_every_library_that_is_needed_is_used(library: Path) -> None:
    unused = subprocess.run(["ldd", "-u", "-r", library], capture_output=True, text=True, check=False).stdout
    assert "libexecutorch.so" not in unused


def test_it_runs_where_the_stock_wheel_of_executorch_runs(library: Path) -> None:
    """ExecuTorch's wheel is manylinux_2_28; newer symbols of glibc would narrow that."""
    text = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(\d+\.\d+)", text)}
    newest = max(versions)
    if newest > (2, 28):
        pytest.skip(f"built on a machine with a newer glibc: needs {newest}; build release wheels on manylinux_2_28")
