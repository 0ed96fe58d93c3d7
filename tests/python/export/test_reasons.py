"""Every operator that stays outside says why, and stays as it was."""

from __future__ import annotations

import json

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from export_helpers import One, Two, check_against_eager, lower_model
from torch import nn
from torch.export import Dim

from torch_tensorrt_executorch_runtime.export import TensorRTPartitioner

TOO_FEW = {"require_engine": False}


class Branches(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda value: value.sin() + 1, lambda value: value.cos() * 2, (x,))


@pytest.mark.parametrize(
    ("function", "x", "operator", "reason"),
    [
        (torch.erfinv, torch.rand(3), "aten.erfinv.default", "TensorRT has no converter"),
        (lambda x: x.double() * 1e-300, torch.rand(3), "aten.mul.Tensor", "float64 tensor"),
        (lambda x: x + 1, torch.arange(3, dtype=torch.uint8), "aten.add.Tensor", "uint8 tensor"),
        (lambda x: torch.fft.rfft(x).abs(), torch.rand(8), "aten._fft_r2c.default", "complex numbers"),
        (torch.nonzero, torch.rand(3), "aten.nonzero.default", "the output's shape depends on the input's values"),
        (lambda x: x[x > 0], torch.rand(3), "aten.index.Tensor", "the output's shape depends on the input's values"),
        (lambda x: x.t(), torch.rand(3, 2), "aten.permute_copy.default", "only moves or views data"),
        (lambda x: torch.arange(4) * 2, torch.rand(3), "aten.arange.start_step", "depends on no input"),
        (lambda x: x + 1, torch.rand(0, 4), "aten.add.Tensor", "broadcasts to a tensor without elements"),
        (lambda x: x | 4, torch.arange(3), "aten.bitwise_or.Scalar", "the converter refuses these arguments"),
    ],
)
def test_says_why_an_operator_stays_outside(function, x, operator, reason):
    module = One(function)

    result = lower_model(module, x)

    assert result.outside[operator] == reason
    if reason != "the output's shape depends on the input's values":
        check_against_eager(result, module, x)


def test_control_flow_stays_outside():
    result = lower_model(Branches(), torch.rand(3))

    assert result.outside["cond"] == "control flow"


@pytest.mark.parametrize(
    "excluded",
    ["aten.tanh.default", "aten.tanh", "torch.ops.aten.tanh", torch.ops.aten.tanh, torch.ops.aten.tanh.default],
)
def test_the_caller_can_keep_an_operator_out(excluded):
    module = One(lambda x: torch.tanh(x.sin()).cos())

    result = lower_model(module, torch.rand(3), torch_executed_ops=[excluded])

    assert result.outside == {"aten.tanh.default": "excluded by torch_executed_ops"}
    assert len(result.blobs) == 2
    check_against_eager(result, module, torch.rand(3))


def test_an_exclusion_does_not_leak_into_the_next_export():
    module = One(torch.tanh)
    lower_model(module, torch.rand(3), torch_executed_ops=["aten.tanh"])

    assert lower_model(module, torch.rand(3)).outside == {}


def test_small_groups_are_left_outside():
    module = One(lambda x: torch.erfinv(x.sin().cos().tanh()).sin())

    result = lower_model(module, torch.rand(3), min_block_size=3)

    assert len(result.blobs) == 1
    assert result.outside["aten.sin.default"] == "fewer operators than min_block_size"


def test_operators_kept_whole_for_a_dropped_engine_are_decomposed_after_all():
    module = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)).eval()
    x = torch.randn(2, 8)

    result = lower_model(module, x, min_block_size=50)

    assert result.blobs == []
    assert "aten.linear.default" not in result.outside
    check_against_eager(result, module, x)
    result.lowered.manager.to_executorch()


def test_float64_is_never_retyped():
    module = Two(lambda x, y: (x * 2, y * 2))
    x, y = torch.rand(3), torch.full((3,), 1 + 1e-12, dtype=torch.float64)

    result = lower_model(module, x, y)

    assert [binding.dtype for blob in result.blobs for binding in blob.metadata.bindings] == ["float32", "float32"]
    check_against_eager(result, module, x, y)


def test_integers_stay_integers_across_a_cut():
    module = One(lambda x: torch.erfinv((x // 2).float() / 100) + (x // 3))
    x = torch.tensor([7, -7, 9])

    result = lower_model(module, x)

    assert len(result.blobs) == 2
    check_against_eager(result, module, x)


def test_the_report_travels_with_the_first_delegate_only():
    result = lower_model(One(lambda x: torch.cos(torch.erfinv(torch.erfinv(torch.tanh(x))))), torch.rand(3))

    specs = [{spec.key: spec.value for spec in module.compile_specs} for module in result.delegates]
    assert json.loads(specs[0]["partition_report"]) == {
        "outside": [{"op": "aten.erfinv.default", "count": 2, "reason": "TensorRT has no converter"}],
        "engines": 2,
    }
    assert "partition_report" not in specs[1]


def test_the_partitioner_alone_leaves_sizes_outside_that_engines_cannot_take():
    module = One(lambda x: torch.cos(torch.erfinv(torch.tanh(x.view(x.shape[0] * 2, -1))).view(x.shape[0], -1)))
    program = torch.export.export(module, (torch.rand(4, 8),), dynamic_shapes=({0: Dim("n", max=8)},))
    partitioner = TensorRTPartitioner()

    to_edge_transform_and_lower(
        program, partitioner=[partitioner], compile_config=EdgeCompileConfig(_check_ir_validity=False)
    )

    reasons = {entry.reason for entry in partitioner.outside}
    assert "needs a size that is computed outside of the engine" in reasons
