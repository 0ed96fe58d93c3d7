"""Options reach the delegate or the builder, and wrong ones are refused with a sentence."""

from __future__ import annotations

import pytest
import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from export_helpers import One, lower_model
from torch import nn

from torch_tensorrt_executorch_runtime import _errors
from torch_tensorrt_executorch_runtime.export import TensorRTPartitioner
from torch_tensorrt_executorch_runtime.export._options import BuildOptions, device_index, normalize_capabilities

X = torch.rand(2, 3)


def specs_of(**options):
    (delegate,) = lower_model(One(lambda x: x.sin() + 1), X, **options).delegates
    return {spec.key: bytes(spec.value) for spec in delegate.compile_specs}


def test_default_specs_are_those_of_the_format():
    assert specs_of() == {"target_device": b"cuda:0", "partition_report": b'{"outside":[],"engines":1}'}


def test_each_delegate_option_becomes_its_spec():
    specs = specs_of(
        device="cuda:1",
        use_cuda_graphs=True,
        use_shared_activation_scratch=True,
        weight_streaming_budget_per_engine=1000,
        compile_specs=[CompileSpec("mine", b"1")],
    )

    assert specs["target_device"] == b"cuda:1"
    assert specs["use_cuda_graphs"] == b"1"
    assert specs["use_shared_activation_scratch"] == b"1"
    assert specs["weight_streaming_budget"] == b"1000"
    assert specs["mine"] == b"1"
    off = specs_of(use_cuda_graphs=False, use_shared_activation_scratch=False)
    assert (off["use_cuda_graphs"], off["use_shared_activation_scratch"]) == (b"0", b"0")


@pytest.mark.parametrize("device", ["cuda:1", 1, torch.device("cuda:1")])
def test_the_blob_and_the_spec_name_the_same_device(device):
    result = lower_model(One(lambda x: x.sin() + 1), X, device=device)

    assert result.blobs[0].metadata.device_id == 1


def test_a_target_device_spec_sets_the_device_of_the_blob_too():
    specs = [CompileSpec("target_device", b"CUDA:2")]

    assert lower_model(One(lambda x: x.sin() + 1), X, compile_specs=specs).blobs[0].metadata.device_id == 2


def test_build_options_reach_the_builder_and_the_blob():
    result = lower_model(
        nn.Linear(3, 4).eval(), X, compute_capabilities=["8.9", "sm86", (8, 0)], optimization_level=1, disable_tf32=True
    )

    assert result.blobs[0].metadata.compute_capabilities == ("8.0", "8.6", "8.9")
    specs = {spec.key: bytes(spec.value) for spec in result.delegates[0].compile_specs}
    assert specs["tensorrt_build_options"] == (
        b'{"compute_capabilities":["8.0","8.6","8.9"],"optimization_level":1,"disable_tf32":true}'
    )


def test_options_survive_the_way_through_a_spec():
    options = BuildOptions(compute_capabilities=("8.0",), workspace_size=5, use_fp32_acc=True)

    assert BuildOptions.from_specs(options.specs()) == options
    assert BuildOptions().specs() == []


def test_metadata_names_the_tensorrt_that_built():
    metadata = lower_model(nn.Linear(3, 4).eval(), X).blobs[0].metadata

    assert metadata.tensorrt is not None
    assert metadata.tensorrt.flavor == "rtx"
    assert metadata.tensorrt.version.startswith("1.6.1")
    assert metadata.compute_capabilities == ()
    assert metadata.layers is not None and metadata.layers > 0
    assert metadata.build_seconds is not None and metadata.build_seconds > 0
    assert metadata.target_platform.startswith("linux_")


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, ()), ("8.6", ("8.6",)), (["sm_120", "SM86", "8.6"], ("8.6", "12.0")), ([(12, 1)], ("12.1",))],
)
def test_compute_capabilities_are_written_one_way(given, expected):
    assert normalize_capabilities(given) == expected


def test_refuses_a_compute_capability_that_is_none():
    with pytest.raises(_errors.ExportError, match=r"compute_capabilities holds 'fast', but \"8.6\", \"sm86\" or"):
        normalize_capabilities(["fast"])


def test_refuses_a_compute_capability_that_tensorrt_does_not_know():
    with pytest.raises(_errors.ExportError, match=r"holds '9.0', but TensorRT-RTX 1\.6\.1.* can name only 7\.5, 8\.0"):
        lower_model(nn.Linear(3, 4).eval(), X, compute_capabilities=["9.0"])


@pytest.mark.parametrize("device", ["cpu", "gpu", "cuda:128", object()])
def test_refuses_what_is_no_cuda_device(device):
    with pytest.raises(_errors.ExportError, match="device is .*cuda:0"):
        device_index(device)


def test_refuses_two_devices():
    with pytest.raises(_errors.ExportError, match="device is 'cuda:1', but compile_specs has target_device='cuda:0'"):
        TensorRTPartitioner([CompileSpec("target_device", b"cuda:0")], device="cuda:1")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"weight_streaming_budget_per_engine": True}, TypeError, "is True, but a number of bytes"),
        ({"weight_streaming_budget_per_engine": "1"}, TypeError, "is '1', but a number of bytes"),
        ({"weight_streaming_budget_per_engine": 1.0}, TypeError, "is 1.0, but a number of bytes"),
        ({"weight_streaming_budget_per_engine": -1}, ValueError, "is -1, but 0 <= budget < 2"),
        ({"weight_streaming_budget_per_engine": 2**63}, ValueError, "0 <= budget < 2"),
        ({"use_cuda_graphs": 1}, TypeError, "use_cuda_graphs is 1, but True, False or None"),
        ({"use_shared_activation_scratch": "1"}, TypeError, "use_shared_activation_scratch is '1', but True, False"),
        (
            {"compile_specs": [CompileSpec("weight_streaming_budget", b"1")]},
            ValueError,
            "Pass weight_streaming_budget_per",
        ),
        ({"compile_specs": [CompileSpec("use_cuda_graphs", b"1")]}, ValueError, "Pass use_cuda_graphs= instead"),
        (
            {"compile_specs": [CompileSpec("use_shared_activation_scratch", b"1")]},
            ValueError,
            "Pass use_shared_activation_scratch= instead",
        ),
        ({"compile_specs": [CompileSpec("partition_report", b"")]}, ValueError, "which the exporter writes itself"),
        ({"compile_specs": ["target_device"]}, TypeError, "holds a str, but CompileSpec objects"),
        ({"compile_specs": [CompileSpec("target_device", b"cuda:0")] * 2}, ValueError, "two target_device entries"),
        ({"speed": 3}, TypeError, "does not know speed. Supported are compile_specs, device, .*optimization_level"),
    ],
)
def test_refuses_wrong_options(options, error, text):
    with pytest.raises(error, match=text):
        TensorRTPartitioner(**options)


def test_equal_exports_give_equal_bytes(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    module = nn.Sequential(nn.Linear(3, 4), nn.GELU()).eval()

    first, second = (lower_model(module, X).delegates[0].processed_bytes for _ in range(2))

    assert first == second
    assert b"build_seconds" not in first
