"""Every operator that stays outside says why, and stays as it was."""

from __future__ import annotations

import json

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from export_helpers import One, Two, check_against_eager, check_bindings, lower_model
from torch import nn
from torch.export import Dim

from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export import TensorRTPartitioner, save

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
        (lambda x: x.view(3, 2), torch.rand(2, 3), "aten.view_copy.default", "only moves or views data"),
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


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.view(6, 4) * 2).float() + 1,
        lambda x: (x.permute(1, 0, 2).reshape(3, 8) * 2).float() + 1,
        lambda x: (x.transpose(0, 1).view(3, 2, 2, 2) * 2).float() + 1,
        lambda x: (x[:, :1].expand(2, 3, 4).reshape(6, 4) * 2).float() + 1,
    ],
)
def test_a_view_outside_of_the_engines_is_one_that_executorch_has_a_kernel_for(function, tmp_path):
    module, x = One(function), torch.rand(2, 3, 4, dtype=torch.float64)

    result = lower_model(module, x)

    assert result.outside["aten.view_copy.default"] == "float64 tensor"
    check_against_eager(result, module, x)
    save(module, tmp_path / "model.pte", arg_inputs=(x,))


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


@pytest.mark.parametrize("name", ["aten.foo", "tanh", "aten.tanh.out_of_nowhere", "aten::tanh", "", "nowhere.tanh"])
def test_a_name_that_is_no_operator_is_refused(name):
    with pytest.raises(ValueError, match=r"torch_executed_ops holds .*, but PyTorch has no such operator"):
        lower_model(One(torch.tanh), torch.rand(3), torch_executed_ops=[name])


@pytest.mark.parametrize("operators", ["aten.tanh", 3, None])
def test_operators_to_keep_out_come_as_a_list(operators):
    with pytest.raises(TypeError, match=r"torch_executed_ops is .*, but a list or set of operators is expected"):
        lower_model(One(torch.tanh), torch.rand(3), torch_executed_ops=operators)


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


@pytest.mark.parametrize(
    ("function", "dtype", "operator"),
    [
        (lambda x: -x, torch.int32, "aten.neg.default"),
        (lambda x: x.amax(0), torch.int32, "aten.amax.default"),
        (lambda x: x.cumsum(0), torch.int64, "aten.cumsum.default"),
        (lambda x: x.clamp(max=2**40), torch.int64, "aten.clamp.default"),
        (lambda x: x.scatter(0, torch.zeros(1, 3, dtype=torch.int64), x), torch.int32, "aten.scatter.src"),
    ],
)
def test_integers_that_tensorrt_would_round_stay_outside(function, dtype, operator):
    module = One(lambda x: function(x) + 1)
    x = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=dtype)

    result = lower_model(module, x)

    assert result.outside[operator] == "TensorRT would round or shorten these integers"
    check_against_eager(result, module, x)


def _casts(monkeypatch, module, *inputs):
    """Return the types between which the networks of a model convert."""
    from torch_tensorrt_executorch_runtime.export._interpreter import _Interpreter

    found = set()
    construct = _Interpreter.construct

    def recording(self):
        construct(self)
        layers = [self.ctx.net.get_layer(index) for index in range(self.ctx.net.num_layers)]
        for layer in layers:
            if layer.type.name == "CAST":
                found.add((layer.get_input(0).dtype.name, layer.get_output(0).dtype.name))

    monkeypatch.setattr(_Interpreter, "construct", recording)
    lower_model(module, *inputs)
    return found


def test_int64_is_chosen_without_becoming_int32(monkeypatch):
    module = Two(lambda x, y: torch.where(x > y, x, y * 2))

    casts = _casts(monkeypatch, module, torch.tensor([2**40, 1]), torch.tensor([1, 2**41]))

    assert ("INT64", "INT32") not in casts


def test_an_engine_never_writes_into_its_inputs():
    class Cache(nn.Module):
        def forward(self, keys, x, position):
            return keys.index_copy(2, position, x).mean(), keys.sum()

    module = Cache()
    inputs = (torch.zeros(1, 2, 8, 4), torch.ones(1, 2, 1, 4), torch.tensor([1]))

    result = lower_model(module, *inputs)

    assert result.blobs[0].metadata.aliases == ()
    check_bindings(result)
    check_against_eager(result, module, *inputs)


def test_an_operator_that_cannot_be_converted_stays_outside(monkeypatch, caplog):
    from torch_tensorrt_executorch_runtime.export._interpreter import _Interpreter

    call = _Interpreter.call_function

    def failing(self, target, args, kwargs):
        if target is torch.ops.aten.tanh.default:
            raise ValueError("no such layer")
        return call(self, target, args, kwargs)

    monkeypatch.setattr(_Interpreter, "call_function", failing)
    module = One(lambda x: torch.tanh(x.sin()).cos())

    result = lower_model(module, torch.rand(3))

    assert result.outside == {"aten.tanh.default": "Torch-TensorRT fails to convert it"}
    assert len(result.blobs) == 2
    assert "aten.tanh.default stays outside of TensorRT: Torch-TensorRT could not convert" in caplog.text


def test_a_conversion_that_goes_on_failing_is_reported(monkeypatch):
    from torch_tensorrt_executorch_runtime.export._interpreter import _Interpreter

    def failing(self, target, args, kwargs):
        raise ValueError("no such layer")

    monkeypatch.setattr(_Interpreter, "placeholder", failing)

    with pytest.raises(ExportError, match=r"could not convert .*no such layer.* Keep the operator out with torch_exec"):
        lower_model(One(torch.tanh), torch.rand(3))
