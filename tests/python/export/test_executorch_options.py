"""What is meant for ExecuTorch reaches it, and comes back unchanged."""

from __future__ import annotations

import copy

import pytest
import torch
from executorch.exir import EdgeCompileConfig
from export_helpers import One, check_against_eager, lower_model
from torch import nn
from torch.export import Dim
from torch.fx.passes.infra.pass_base import PassResult

from torch_tensorrt_executorch_runtime.export import lower, save

X = torch.rand(4, 8)


class Recorder:
    """A transform pass that only remembers that it ran."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module):
        self.graphs += 1
        return PassResult(module, False)


@pytest.mark.parametrize("dynamic_shapes", [None, ({0: Dim("n", max=8)},)])
@pytest.mark.parametrize("per_method", [False, True])
def test_transform_passes_run(dynamic_shapes, per_method):
    recorder = Recorder()
    passes = {"forward": [recorder]} if per_method else [recorder]

    result = lower_model(One(torch.tanh), X, dynamic_shapes=dynamic_shapes, transform_passes=passes)

    assert recorder.graphs == 1
    assert len(result.blobs) == 1


def test_a_method_without_passes_is_lowered_all_the_same():
    recorder = Recorder()
    source = {name: torch.export.export(nn.Linear(8, 4).eval(), (X,)) for name in ("a", "b")}

    manager = lower(source, transform_passes={"a": [recorder]})

    assert recorder.graphs == 1
    assert manager.methods == {"a", "b"}


def test_the_compile_configuration_is_used_and_kept():
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=[torch.ops.aten.tanh.default])
    before = copy.deepcopy(vars(config))

    lower_model(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)).eval(), X, compile_config=config)

    assert vars(config) == before


def test_constant_methods_are_written(tmp_path):
    from executorch.runtime import Runtime

    path = tmp_path / "model.pte"
    save(One(torch.tanh), path, arg_inputs=(X,), constant_methods={"size": 8})

    assert Runtime.get().load_program(path).load_method("size").execute([]) == [8]


def test_weights_may_be_streamed():
    module = nn.Linear(8, 4).eval()

    result = lower_model(module, X, enable_weight_streaming=True, weight_streaming_budget_per_engine=64)

    specs = {spec.key: bytes(spec.value) for spec in result.delegates[0].compile_specs}
    assert specs["weight_streaming_budget"] == b"64"
    check_against_eager(result, module, X)


def test_efficientnet_becomes_one_engine():
    dtype = torch.float16
    network = pytest.importorskip("efficientnet_lite_pytorch", reason="the demo's model is not installed")
    module = network.EfficientNet.from_name("efficientnet-lite0").eval().to(dtype)

    result = lower_model(module, torch.zeros(1, 3, 224, 224, dtype=dtype))

    assert result.outside == {}
    assert [binding.dtype for binding in result.blobs[0].metadata.bindings] == ["float16"] * 2
