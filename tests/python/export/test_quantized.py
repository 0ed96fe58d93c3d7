"""Quantized models: what TensorRT does not take stays as it was, or the export names the operators without a kernel."""

from __future__ import annotations

import pytest
import torch
from export_helpers import One, check_against_eager, check_bindings, lower_model
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  registers the operators

from torch_tensorrt_executorch_runtime import ExportError
from torch_tensorrt_executorch_runtime.export import save

X = torch.rand(2, 8)


class SmallWeights(nn.Module):
    """A linear layer whose weights are kept in fewer bits and multiplied by a scale for each row."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("weight", torch.linspace(-100, 100, 32).reshape(4, 8).to(dtype))
        self.register_buffer("scale", torch.rand(4, 1) / 100)

    def forward(self, x):
        return x @ (self.weight.float() * self.scale).t()


def _rounded(x):
    limits = (0.05, 0, -128, 127, torch.int8)
    quantized = torch.ops.quantized_decomposed.quantize_per_tensor(x * 2, *limits)
    return torch.ops.quantized_decomposed.dequantize_per_tensor(quantized, *limits) * 3


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_small_weights_are_widened_outside_of_the_engine(dtype, tmp_path):
    module = SmallWeights(dtype)

    result = lower_model(module, X)

    assert result.outside == {"aten._to_copy.default": f"{str(dtype).removeprefix('torch.')} tensor"}
    assert {binding.dtype for blob in result.blobs for binding in blob.metadata.bindings} == {"float32"}
    check_bindings(result)
    check_against_eager(result, module, X)
    assert save(module, tmp_path / "model.pte", arg_inputs=(X,)).warnings == ()


def test_roundings_to_int8_are_named_when_nobody_has_a_kernel(tmp_path):
    module = One(_rounded)

    result = lower_model(module, X)

    assert set(result.outside.values()) == {"int8 tensor"}
    check_against_eager(result, module, X)
    with pytest.raises(ExportError, match=r"quantized_decomposed::quantize_per_tensor.*Add a partitioner that does"):
        save(module, tmp_path / "model.pte", arg_inputs=(X,))
    assert list(tmp_path.iterdir()) == []
