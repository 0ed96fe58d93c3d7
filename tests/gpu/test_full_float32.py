"""`disable_tf32` on the GPU: float32 results as near to eager PyTorch on the CPU as float32 allows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import models

pytestmark = pytest.mark.gpu

# What is left of TF32's rounding (2**-18 of each product), and float32's own in another order of the sums.
LIMIT = 1e-5


@pytest.mark.parametrize("name", ["resnet18", "encoder"])
def test_float32_is_not_rounded_to_tf32(name: str, tmp_path: Path) -> None:
    from torch_tensorrt_executorch_runtime.export import save

    from .programs import load

    method = models.CASES[name].methods(torch.float32)["forward"]
    report = save(method.export(), tmp_path / "model.pte", disable_tf32=True)
    assert len(report.engines) == 1

    (actual,) = load(tmp_path / "model.pte").execute(list(method.inputs))

    assert models.relative_error(actual, method.expected(method.inputs)[0]) < LIMIT
