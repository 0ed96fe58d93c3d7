"""Torch-TensorRT is imported without a driver, only when it is needed, and without traces."""

from __future__ import annotations

import subprocess
import sys

import pytest

from torch_tensorrt_executorch_runtime.export import _torch_tensorrt


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.strip()


def test_the_import_happens_on_demand_and_leaves_the_driver_questions_as_they_were():
    assert run(
        "import sys, torch\n"
        "before = torch.cuda.get_device_capability, torch.cuda.current_device\n"
        "import torch_tensorrt_executorch_runtime.export\n"
        "assert not any(name.split('.')[0] in ('torch_tensorrt', 'tensorrt_rtx') for name in sys.modules)\n"
        "from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt\n"
        "first = load_torch_tensorrt()\n"
        "assert load_torch_tensorrt() is first\n"
        "assert (torch.cuda.get_device_capability, torch.cuda.current_device) == before\n"
        "print(first.__name__)"
    ).endswith("torch_tensorrt")


def test_a_failing_import_restores_everything(monkeypatch):
    import torch

    before = torch.cuda.get_device_capability, torch.cuda.current_device
    monkeypatch.delitem(sys.modules, "torch_tensorrt", raising=False)

    def fail(name):
        raise ModuleNotFoundError("No module named 'torch_tensorrt'", name="torch_tensorrt")

    monkeypatch.setattr(_torch_tensorrt.importlib, "import_module", fail)

    with pytest.raises(
        ImportError,
        match=r"'torch_tensorrt' is missing, .* Run: pip install \"torch-tensorrt-executorch-runtime\[export\]",
    ):
        _torch_tensorrt.load_torch_tensorrt()
    assert (torch.cuda.get_device_capability, torch.cuda.current_device) == before
