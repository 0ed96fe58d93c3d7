from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import torch_tensorrt_executorch_runtime as package
from support.process import PACKAGE, run_code
from torch_tensorrt_executorch_runtime import _info

Distribution = Callable[..., Path]


def test_is_plain_data_and_names_the_versions() -> None:
    info = json.loads(json.dumps(package.delegate_info()))
    assert info["version"] == info["library_version"] == package.__version__
    assert info["executorch"]["version"].startswith("1.5.")
    assert info["backends"] == ["TensorRTBackend", *info["backends"][1:]]
    assert set(info["tensorrt"]) == {"rtx", "full", "lean", "dispatch"}
    assert info["device_allocator"]["ours"] is True


def test_finds_the_installed_tensorrt_rtx() -> None:
    library = package.delegate_info()["tensorrt"]["rtx"]
    assert library["version"].startswith("1.")
    assert Path(library["path"]).is_file()


def test_says_where_it_looked_for_a_flavour_that_is_absent() -> None:
    library = package.delegate_info()["tensorrt"]["dispatch"]
    if library["version"]:
        pytest.skip("this machine has the dispatch runtime")
    assert "tensorrt_dispatch_libs/libnvinfer_dispatch.so.11: no such file" in library["error"]


@pytest.mark.parametrize(
    ("version", "can"), [("2.13.0", True), ("2.14.1+cu130", True), ("2.12.0", False), ("x", False)]
)
def test_knows_which_torch_can_pass_tensors(version: str, can: bool) -> None:
    assert _info._passes_tensors(version) is can


def test_says_when_torch_is_too_old_to_pass_tensors(distribution: Distribution) -> None:
    result = run_code(
        f"import {PACKAGE} as p; print(*p.delegate_info()['missing'], sep='\\n')",
        path=[distribution("torch", "2.12.0")],
    )
    assert "torch 2.12.0 cannot pass tensors through executorch.runtime" in result.out, result.err
    assert 'pip install "torch>=2.14,<2.15"' in result.out


def test_sentences_say_what_is_missing() -> None:
    nothing = dict.fromkeys(("path", "version", "error"))
    info = {
        "skipped": False,
        "cuda": {"devices": [], "error": "no driver"},
        "tensorrt": dict.fromkeys(("rtx", "full", "lean", "dispatch"), nothing),
        "torch": {"version": None, "passes_tensors": False},
    }
    gpu, tensorrt, torch = _info._missing(info)
    assert "No NVIDIA GPU can be used (no driver)." in gpu
    assert '"torch-tensorrt-executorch-runtime[rtx]"' in tensorrt
    assert "torch is not installed" in torch


def test_reads_the_facts_of_a_machine_with_gpus() -> None:
    facts = {
        "cuda.driver": "13.0",
        "cuda.devices": "2",
        "device.0.name": "A",
        "device.0.compute_capability": "9.0",
        "device.0.memory_bytes": "150000000000",
        "device.1.name": "B",
    }
    cuda = _info._cuda(facts)
    assert cuda["devices"][0] == {
        "index": 0, "name": "A", "compute_capability": "9.0", "memory_bytes": 150_000_000_000
    }  # fmt: skip
    assert cuda["devices"][1]["memory_bytes"] == 0
    assert cuda["error"] is None
