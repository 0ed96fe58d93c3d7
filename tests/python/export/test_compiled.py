"""Modules compiled by Torch-TensorRT keep their engines to the byte."""

from __future__ import annotations

import os

import pytest
import torch
from compiled_models import compile_module, engines_in
from export_helpers import One, Three, blobs_of
from torch import nn

from torch_tensorrt_executorch_runtime._errors import ExportError, UnsupportedSourceError
from torch_tensorrt_executorch_runtime.export import extend_torch_tensorrt, save
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt

X = torch.rand(4, 8)


def three_parts() -> nn.Module:
    return One(lambda x: torch.cos(torch.erfinv(torch.tanh(x)))).eval()


@pytest.fixture(scope="module")
def compiled() -> torch.fx.GraphModule:
    return compile_module(three_parts(), (X,))


def stock_save(module, path, **options):
    load_torch_tensorrt().save(module, str(path), output_format="executorch", **options)


def test_embeds_the_engines_as_they_are(compiled, tmp_path):
    report = save(compiled, tmp_path / "model.pte", arg_inputs=(X,), retrace=False)

    blobs = blobs_of(tmp_path / "model.pte")
    assert [bytes(blob.engine) for blob in blobs] == engines_in(compiled)
    assert report.delegates == {"forward": ("TensorRTBackend", "TensorRTBackend")}
    assert [entry.to_dict() for entry in report.outside] == [
        {"op": "aten.erfinv.default", "count": 1, "reason": "not part of a compiled engine"}
    ]
    assert [(binding.dtype, binding.shape) for binding in blobs[0].metadata.bindings] == [("float32", (4, 8))] * 2


def test_does_not_change_the_compiled_module(compiled, tmp_path):
    before = (str(compiled.graph), [name for name, _ in compiled.named_modules()], engines_in(compiled))

    for name in ("one", "two"):
        save(compiled, tmp_path / f"{name}.pte", arg_inputs=(X,))

    assert (str(compiled.graph), [name for name, _ in compiled.named_modules()], engines_in(compiled)) == before
    assert [bytes(b.engine) for b in blobs_of(tmp_path / "one.pte")] == [
        bytes(b.engine) for b in blobs_of(tmp_path / "two.pte")
    ]


def test_needs_no_example_inputs(compiled, tmp_path):
    assert len(save(compiled, tmp_path / "model.pte").engines) == 2


def test_writes_the_same_engines_and_bindings_as_torch_tensorrt(compiled, tmp_path):
    stock_save(compiled, tmp_path / "stock.pte", arg_inputs=[X], retrace=False)
    save(compiled, tmp_path / "ours.pte", arg_inputs=(X,))

    stock, ours = blobs_of(tmp_path / "stock.pte"), blobs_of(tmp_path / "ours.pte")
    assert [bytes(blob.engine) for blob in ours] == [bytes(blob.engine) for blob in stock]
    for mine, theirs in zip(ours, stock, strict=True):
        assert [(b.name, b.is_input) for b in mine.metadata.bindings] == [
            (b.name, b.is_input) for b in theirs.metadata.bindings
        ]
        assert mine.metadata.device_id == theirs.metadata.device_id
        assert mine.metadata.serialized_metadata == theirs.metadata.serialized_metadata


def test_orders_bindings_by_identity(tmp_path):
    module = compile_module(Three(lambda x, y, z: (z - y) * 2 + x).eval(), tuple(torch.rand(3, 4).unbind()))

    save(module, tmp_path / "model.pte")

    (blob,) = blobs_of(tmp_path / "model.pte")
    stock_save(module, tmp_path / "stock.pte", retrace=False)
    assert [b.name for b in blob.metadata.inputs] == [
        b.name for b in blobs_of(tmp_path / "stock.pte")[0].metadata.inputs
    ]


def test_keeps_weights_of_the_parts_outside(tmp_path):
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(8))

        def forward(self, x):
            return torch.cos(torch.erfinv(torch.tanh(x) * self.weight))

    module = compile_module(Weighted().eval(), (X,), torch_executed_ops={"torch.ops.aten.mul.Tensor"})

    report = save(module, tmp_path / "model.pte")

    assert {entry.op for entry in report.outside} == {"aten.mul.Tensor", "aten.erfinv.default"}
    assert len(report.engines) == 2


def test_dynamic_sizes_survive(tmp_path):
    batch = torch.export.Dim("batch", min=1, max=8)
    module = compile_module(nn.Linear(8, 4).eval(), (X,), dynamic_shapes=({0: batch},))

    save(module, tmp_path / "model.pte", arg_inputs=(X,), dynamic_shapes=({0: batch},))

    (blob,) = blobs_of(tmp_path / "model.pte")
    assert blob.metadata.inputs[0].shape == (-1, 8)


def test_tracing_again_that_fails_is_refused(compiled, tmp_path):
    # A real engine object can be traced, the stand-in cannot.
    with pytest.raises(ExportError, match="pass retrace=False, which keeps the engines"):
        save(compiled, tmp_path / "model.pte", arg_inputs=(X,), retrace=True)

    assert os.listdir(tmp_path) == []


def test_tracing_again_that_loses_an_engine_is_refused(compiled, tmp_path, monkeypatch):
    from torch_tensorrt_executorch_runtime.export import _compiled_module

    export = _compiled_module._exporter.export
    lossy = lambda module, **options: export(one_engine, use_legacy_exporter=True)  # noqa: E731
    one_engine = compile_module(nn.Linear(8, 4).eval(), (X,))
    monkeypatch.setattr(_compiled_module._exporter, "export", lossy)

    with pytest.raises(ExportError, match=r"has 2 engines, but tracing it again kept 1\. Leave retrace out, or pass"):
        save(compiled, tmp_path / "model.pte", arg_inputs=(X,), retrace=True)

    assert os.listdir(tmp_path) == []


def test_tracing_again_needs_inputs(compiled, tmp_path):
    with pytest.raises(ValueError, match=r"retrace=True traces the module again and needs example inputs"):
        save(compiled, tmp_path / "model.pte", retrace=True)


def test_refuses_an_engine_compiled_for_another_device(compiled, tmp_path):
    with pytest.raises(ExportError, match="device is 'cuda:1', but the engine was compiled for 'cuda:0'"):
        save(compiled, tmp_path / "model.pte", device="cuda:1")


def test_refuses_a_compiled_part_inside_of_a_module(compiled, tmp_path):
    with pytest.raises(UnsupportedSourceError, match="Sequential with a compiled part inside"):
        save(nn.Sequential(compiled), tmp_path / "model.pte", arg_inputs=(X,))


def test_the_extension_routes_executorch_only(compiled, tmp_path, monkeypatch):
    torch_tensorrt = load_torch_tensorrt()
    original = torch_tensorrt.save
    with extend_torch_tensorrt():
        torch_tensorrt.save(
            compiled,
            str(tmp_path / "model.pte"),
            output_format="executorch",
            arg_inputs=[X],
            retrace=False,
            use_cuda_graphs=True,
        )
        with pytest.raises(ValueError, match="torchscript"):
            torch_tensorrt.save(compiled, str(tmp_path / "model.ts"), output_format="nonsense")
    assert torch_tensorrt.save is original

    assert [bytes(blob.engine) for blob in blobs_of(tmp_path / "model.pte")] == engines_in(compiled)


def test_the_extension_ends_with_its_last_holder():
    torch_tensorrt = load_torch_tensorrt()
    original = torch_tensorrt.save
    first, second = extend_torch_tensorrt(), extend_torch_tensorrt()
    extended = torch_tensorrt.save
    assert extended is not original

    first.restore()
    first.restore()
    assert torch_tensorrt.save is extended
    second.restore()
    assert torch_tensorrt.save is original


def test_the_extended_save_lists_its_keywords(compiled):
    with (
        extend_torch_tensorrt(),
        pytest.raises(TypeError, match=r"does not know the keyword speed\. Supported are: arg"),
    ):
        load_torch_tensorrt().save(compiled, "model.pte", output_format="executorch", speed=1)
