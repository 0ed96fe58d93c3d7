"""Files appear complete and checked, or not at all."""

from __future__ import annotations

import json
import os
import stat

import pytest
import torch
from executorch.exir import ExecutorchProgramManager
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from export_helpers import One, blobs_of, read_pte
from torch import nn

from torch_tensorrt_executorch_runtime._errors import BlobError, ExportError
from torch_tensorrt_executorch_runtime.export import save

X = torch.rand(4, 8)


class DataBackend(BackendDetails):
    """Keeps its weights in a separate file of a fixed name, like the CUDA backend."""

    payload = b"weights"

    @staticmethod
    def preprocess(edge_program, compile_specs):
        store = NamedDataStore()
        store.add_named_data("weights_key", DataBackend.payload, external_tag="fixed_name")
        return PreprocessResult(processed_bytes=b"code", data_store_output=store.get_named_data_store_output())


class TakesRest(Partitioner):
    """Takes every operator that is left, one by one, like the CUDA partitioner."""

    def partition(self, exported_program):
        tags = {}
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and "aten" in str(node.target):
                node.meta["delegation_tag"] = tag = f"rest_{node.name}"
                tags[tag] = DelegationSpec("DataBackend", [])
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


@torch.library.custom_op("export_tests::without_kernel", mutates_args=())
def without_kernel(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@without_kernel.register_fake
def _(x):
    return torch.empty_like(x)


def three_parts() -> nn.Module:
    return One(lambda x: torch.cos(torch.erfinv(torch.tanh(x))))


def test_writes_what_it_reports(tmp_path):
    path = tmp_path / "model.pte"

    report = save(three_parts(), path, arg_inputs=(X,))

    blobs = blobs_of(path)
    assert len(blobs) == len(report.engines) == 2
    assert [engine.sha256 for engine in report.engines] == [blob.metadata.engine_sha256 for blob in blobs]
    assert [engine.size_bytes for engine in report.engines] == [len(blob.engine) for blob in blobs]
    assert [engine.bindings for engine in report.engines] == [blob.metadata.bindings for blob in blobs]
    assert report.delegates == {"forward": ("TensorRTBackend", "TensorRTBackend")}
    assert [(file.path, file.size_bytes) for file in report.files] == [(path, path.stat().st_size)]
    assert os.listdir(tmp_path) == ["model.pte"]


def test_the_report_is_text_and_json(tmp_path):
    report = save(three_parts(), str(tmp_path / "model.pte"), arg_inputs=(X,))

    text = str(report)
    assert "engine 0: 1 layers, " in text
    assert "x float32[4, 8] -> output_0 float32[4, 8]" in text
    assert "outside: aten.erfinv.default x1: TensorRT has no converter" in text
    document = json.loads(json.dumps(report.to_dict()))
    assert document["engines"][0]["layers"] == 1
    assert document["outside"][0]["reason"] == "TensorRT has no converter"
    assert document["files"][0]["path"].endswith("model.pte")


def test_writes_several_methods(tmp_path):
    source = {
        "encode": torch.export.export(nn.Linear(8, 2).eval(), (X,)),
        "decode": torch.export.export(nn.Linear(2, 8).eval(), (torch.rand(4, 2),)),
    }

    report = save(source, tmp_path / "model.pte", constant_methods={"size": 8})

    assert set(report.methods) == {"encode", "decode"}
    assert {engine.method for engine in report.engines} == {"encode", "decode"}
    assert {method.name for method in read_pte(tmp_path / "model.pte").methods} == {"encode", "decode", "size"}
    assert blobs_of(tmp_path / "model.pte", "decode")[0].metadata.inputs[0].shape == (4, 2)


def test_replaces_an_older_file(tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(b"old")

    save(three_parts(), path, arg_inputs=(X,))

    assert len(blobs_of(path)) == 2


def test_takes_a_name_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    report = save(three_parts(), "model.pte", arg_inputs=(X,))

    assert str(report.files[0].path) == "model.pte"
    assert os.listdir(tmp_path) == ["model.pte"]


def test_new_files_have_the_usual_permissions(tmp_path):
    save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,))
    (tmp_path / "plain").touch()

    assert stat.S_IMODE((tmp_path / "model.pte").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_writes_an_etrecord_beside_the_program(tmp_path):
    report = save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,), generate_etrecord=True)

    assert [file.path.name for file in report.files] == ["model.pte", "model_etrecord.bin"]
    assert (tmp_path / "model_etrecord.bin").stat().st_size > 0


@pytest.fixture
def no_building(monkeypatch):
    import sys

    def build(*args, **kwargs):
        raise AssertionError("an engine was built for a path that cannot be written")

    monkeypatch.setattr(sys.modules["torch_tensorrt_executorch_runtime.export.save"], "lower_methods", build)


@pytest.mark.usefixtures("no_building")
class TestRefusesBeforeBuilding:
    def test_a_missing_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="The folder does not exist. Create it first: .*missing"):
            save(three_parts(), tmp_path / "missing" / "model.pte", arg_inputs=(X,))

    def test_a_folder_as_the_file(self, tmp_path):
        with pytest.raises(IsADirectoryError, match="This is a folder. Give the name of a file in it"):
            save(three_parts(), tmp_path, arg_inputs=(X,))

    def test_a_folder_that_cannot_be_written(self):
        with pytest.raises(OSError, match=r"The folder cannot be written \(.*\)\. Choose another one: '/proc'"):
            save(three_parts(), "/proc/model.pte", arg_inputs=(X,))

    def test_an_empty_path(self):
        with pytest.raises(ValueError, match="The path is empty"):
            save(three_parts(), "", arg_inputs=(X,))

    def test_another_format(self, tmp_path):
        with pytest.raises(ValueError, match="output_format is 'torchscript', but save writes 'executorch' only"):
            save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,), output_format="torchscript")

    def test_an_unknown_keyword(self, tmp_path):
        with pytest.raises(
            TypeError,
            match=r"save\(\) does not know the keyword sped, spee\. Supported are: arg_inputs, backend_config, ",
        ) as caught:
            save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,), spee=1, sped=2)
        for name in (
            "retrace",
            "weight_streaming_budget_per_engine",
            "zero_copy_kv",
            "compute_capabilities",
            "progress",
        ):
            assert name in str(caught.value)


def _fail(*args, **kwargs):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_failing_disk_leaves_everything_as_it_was(tmp_path, monkeypatch, old):
    path = tmp_path / "model.pte"
    if old is not None:
        path.write_bytes(old)
    monkeypatch.setattr(ExecutorchProgramManager, "write_to_file", _fail)

    with pytest.raises(OSError, match="No space left"):
        save(three_parts(), path, arg_inputs=(X,))

    assert os.listdir(tmp_path) == ([] if old is None else ["model.pte"])
    assert old is None or path.read_bytes() == old


def test_a_failing_build_leaves_nothing(tmp_path):
    with pytest.raises(ExportError, match="can name only"):
        save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,), compute_capabilities=["1.0"])

    assert os.listdir(tmp_path) == []


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(ExecutorchProgramManager, "write_to_file", interrupt)

    with pytest.raises(KeyboardInterrupt):
        save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,))

    assert os.listdir(tmp_path) == []


def test_a_file_that_lost_an_engine_is_removed(tmp_path, monkeypatch):
    import sys

    module = sys.modules["torch_tensorrt_executorch_runtime.export.save"]
    complete = module.read_engines

    def lose_one(path):
        found = complete(path)
        return type(found)(found.engines[:-1], found.delegates)

    monkeypatch.setattr(module, "read_engines", lose_one)

    with pytest.raises(ExportError, match=r"'forward' has 2 engines, but 1 of them, .*The file was removed"):
        save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,))

    assert os.listdir(tmp_path) == []


def test_a_file_that_is_damaged_on_the_way_is_removed(tmp_path, monkeypatch):
    write = ExecutorchProgramManager.write_to_file

    def damage(self, file):
        write(self, file)
        file.seek(-100, os.SEEK_END)
        file.write(b"damage")

    monkeypatch.setattr(ExecutorchProgramManager, "write_to_file", damage)

    with pytest.raises(BlobError, match="'forward', delegate 1: .*the file is damaged"):
        save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,))

    assert os.listdir(tmp_path) == []


def test_refuses_a_program_without_engine_and_says_why(tmp_path):
    with pytest.raises(
        ExportError,
        match=r"takes nothing of method 'forward' \(aten.erfinv.default x1: TensorRT has no converter\)\. Pass require",
    ):
        save(One(torch.erfinv), tmp_path / "model.pte", arg_inputs=(X,))

    assert os.listdir(tmp_path) == []


def test_writes_a_program_without_engine_on_request(tmp_path):
    report = save(One(torch.erfinv), tmp_path / "model.pte", arg_inputs=(X,), require_engine=False)

    assert report.engines == ()
    assert "takes nothing of method 'forward'" in report.warnings[0]
    assert "warning: " in str(report)


def test_says_which_operators_nobody_runs(tmp_path):
    with pytest.raises(ExportError, match=r"could not finish the program: .*\. ExecuTorch has no kernel for these"):
        save(One(lambda x: without_kernel(x) + 1), tmp_path / "model.pte", arg_inputs=(X,))


@pytest.mark.parametrize(("shape", "count"), [((6,), 0), ((2, 3), 1)])
def test_warns_of_indices_that_executorch_mixes_up(tmp_path, caplog, shape, count):
    report = save(One(lambda x: (x * 2, torch.nonzero(x * 2))), tmp_path / "model.pte", arg_inputs=(torch.ones(shape),))

    text = "Method 'forward' calls torch.nonzero on a tensor with two or more dimensions"
    assert [text in warning for warning in report.warnings] == [True] * count
    assert caplog.text.count(text) == count


class TestDataFiles:
    def test_are_called_like_the_model(self, tmp_path):
        for name in ("one", "two"):
            DataBackend.payload = name.encode()
            report = save(three_parts(), tmp_path / f"{name}.pte", arg_inputs=(X,), partitioners=[TakesRest()])
            assert [file.path.name for file in report.files] == [f"{name}.pte", f"{name}.ptd"]

        assert b"one" in (tmp_path / "one.ptd").read_bytes()
        assert b"two" in (tmp_path / "two.ptd").read_bytes()

    def test_come_between_the_engines_in_the_delegate_list(self, tmp_path):
        report = save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,), partitioners=[TakesRest()])

        assert report.delegates["forward"] == ("TensorRTBackend", "DataBackend", "TensorRTBackend")

    def test_are_not_left_behind_when_the_program_cannot_be_written(self, tmp_path, monkeypatch):
        import sys

        module = sys.modules["torch_tensorrt_executorch_runtime.export.save"]
        monkeypatch.setattr(module, "read_engines", _fail)

        with pytest.raises(OSError, match="No space"):
            save(three_parts(), tmp_path / "model.pte", arg_inputs=(X,), partitioners=[TakesRest()])

        assert os.listdir(tmp_path) == []

    def test_of_another_model_are_not_overwritten(self, tmp_path):
        from torch_tensorrt_executorch_runtime.export.save import save_program

        options = {"arg_inputs": (X,), "partitioners": [TakesRest()]}
        DataBackend.payload = b"one"
        save_program(three_parts(), tmp_path / "one.pte", options, keep_data_names=True)
        before = (tmp_path / "fixed_name.ptd").read_bytes()
        DataBackend.payload = b"two"

        with pytest.raises(ExportError, match=r"fixed_name.ptd holds the weights of another program \(one.pte\)"):
            save_program(three_parts(), tmp_path / "two.pte", options, keep_data_names=True)

        assert (tmp_path / "fixed_name.ptd").read_bytes() == before
        assert sorted(os.listdir(tmp_path)) == ["fixed_name.ptd", "one.pte"]

    def test_of_the_same_model_are_replaced(self, tmp_path):
        from torch_tensorrt_executorch_runtime.export.save import save_program

        options = {"arg_inputs": (X,), "partitioners": [TakesRest()]}
        for payload in (b"one", b"two"):
            DataBackend.payload = payload
            save_program(three_parts(), tmp_path / "one.pte", options, keep_data_names=True)

        assert b"two" in (tmp_path / "fixed_name.ptd").read_bytes()
