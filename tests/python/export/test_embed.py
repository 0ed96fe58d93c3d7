"""Kernels that the file carries: asked for at export, refused with a sentence where they cannot be made."""

from __future__ import annotations

import hashlib

import pytest
import torch
from compiled_models import compile_module
from executorch.exir import to_edge_transform_and_lower
from export_helpers import One, lower_model, read_pte
from torch import nn

from support.process import command
from torch_tensorrt_executorch_runtime import _errors, _loader
from torch_tensorrt_executorch_runtime._blob import pack_blob, unpack_blob
from torch_tensorrt_executorch_runtime._digest import engine_digest
from torch_tensorrt_executorch_runtime._kernel_data import parse_key
from torch_tensorrt_executorch_runtime.export import TensorRTPartitioner, _compiled_kernels, lower, save
from torch_tensorrt_executorch_runtime.inspect import KernelInfo, inspect_program

X = torch.rand(2, 3)
GPU = {"cuda.devices": "1", "device.0.name": "Test GPU", "tensorrt.rtx.version": "1.6.1.120"}


def sealed(number: int) -> bytes:
    kernels = b"kernels %d" % number
    return b"TRTKC01\n" + hashlib.sha256(kernels).digest() + kernels


class Machine:
    """Stands for the compiled module of a machine with a GPU."""

    def __init__(self, facts: dict[str, str] | None = None) -> None:
        self.facts = GPU if facts is None else facts
        self.code = 0
        self.compiled: list[str] = []

    def describe(self) -> list[tuple[str, str]]:
        return list(self.facts.items())

    def compile_kernels(self, blob: bytes) -> tuple[int, str, bytes]:
        digest = unpack_blob(blob).metadata.engine_sha256
        self.compiled.append(digest)
        # Other bytes at every call, as from a compiler that tries things out.
        return self.code, f"tensorrt_kernels/{digest}/1.6.1.120/Test GPU", sealed(len(self.compiled))


@pytest.fixture
def machine(monkeypatch):
    found = Machine()
    monkeypatch.setattr(_loader, "native", lambda: found)
    return found


def kernels_in(path) -> dict[str, bytes]:
    program = read_pte(path)
    data = path.read_bytes()
    segments = {segment.index: data[segment.offset : segment.offset + segment.size] for segment in program.segments}
    return {key: bytes(segments[index]) for key, index in program.named_data}


def digests_in(path) -> list[str]:
    methods = read_pte(path).methods
    return [engine_digest(unpack_blob(d.data).engine) for method in methods for d in method.delegates]


def test_the_file_carries_the_kernels_of_every_engine(machine, tmp_path):
    path = tmp_path / "model.pte"
    model = One(lambda x: torch.special.i0e(x.sin() + 1).cos() * 2)
    report = save(model, path, arg_inputs=(X,), embed_runtime_cache=True)

    first, second = digests_in(path)
    assert kernels_in(path) == {
        f"tensorrt_kernels/{first}/1.6.1.120/Test GPU": sealed(1),
        f"tensorrt_kernels/{second}/1.6.1.120/Test GPU": sealed(2),
    }
    assert str(report).count("compiled kernels for Test GPU (0.0 kB)") == 2


def test_the_engine_is_that_of_an_export_without(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    module = nn.Linear(3, 4).eval()

    with_kernels = lower_model(module, X, embed_runtime_cache=True).delegates[0].processed_bytes

    assert with_kernels == lower_model(module, X).delegates[0].processed_bytes
    assert len(machine.compiled) == 1, "not without being asked"


def test_equal_engines_of_two_methods_share_their_kernels(machine, tmp_path):
    path = tmp_path / "model.pte"
    module = nn.Linear(3, 4).eval()
    programs = {name: torch.export.export(module, (X,)) for name in ("a", "b")}

    save(programs, path, embed_runtime_cache=True)

    assert len(machine.compiled) == 1
    assert list(kernels_in(path).values()) == [sealed(1)]


def test_equal_engines_for_two_gpus_of_one_model_share_their_kernels(machine, tmp_path):
    machine.facts = GPU | {"cuda.devices": "2"}
    module = nn.Linear(3, 4).eval()
    programs = {name: torch.export.export(module, (X,)) for name in ("a", "b")}
    partitioners = {
        name: [TensorRTPartitioner(device=f"cuda:{index}", embed_runtime_cache=True)]
        for index, name in enumerate(programs)
    }

    program = to_edge_transform_and_lower(programs, partitioner=partitioners).to_executorch()
    path = tmp_path / "model.pte"
    path.write_bytes(program.buffer)

    assert len(machine.compiled) == 2
    assert list(kernels_in(path).values()) == [sealed(1)]


def test_lower_and_compiled_modules_carry_them_too(machine):
    compiled = compile_module(nn.Linear(3, 4).eval(), (X,))
    for source in (nn.Linear(3, 4).eval(), compiled):
        edge = lower(source, arg_inputs=(X,), embed_runtime_cache=True)
        (kernels,) = edge._named_data_store.get_named_data_store_output().buffers
        assert kernels.startswith(b"TRTKC01")


def test_inspect_shows_them_and_whether_they_are_whole(machine, tmp_path):
    path = tmp_path / "model.pte"
    save(nn.Linear(3, 4).eval(), path, arg_inputs=(X,), embed_runtime_cache=True)

    (kernels,) = inspect_program(path).methods[0].engines[0].kernels
    assert kernels == KernelInfo("1.6.1.120", "Test GPU", len(sealed(1)), whole=True)
    shown = command("inspect", path).out
    assert "compiled kernels: 49 B for Test GPU, TensorRT-RTX 1.6.1.120\n" in shown
    data = path.read_bytes()
    path.write_bytes(data.replace(b"kernels 1", b"kernels X"))
    (kernels,) = inspect_program(path).methods[0].engines[0].kernels
    assert not kernels.whole
    assert "TensorRT-RTX 1.6.1.120, damaged\n" in command("inspect", path).out


@pytest.mark.parametrize(
    "key",
    ["weights", "tensorrt_kernels/", "tensorrt_kernels/abc/1.6.1.120/Test GPU", f"tensorrt_kernels/{'0' * 64}/1.6"],
)
def test_other_named_data_is_not_taken_for_kernels(key):
    assert parse_key(key) is None


def test_a_gpus_name_may_hold_anything():
    assert parse_key(f"tensorrt_kernels/{'0' * 64}/1.6.1.120/A/B 3\n") == ("0" * 64, "1.6.1.120", "A/B 3\n")


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"cuda.devices": "0", "cuda.error": "no driver"}, r"no NVIDIA GPU can be used here \(no driver\)\. Leave"),
        (
            {"cuda.devices": "0"},
            r"no NVIDIA GPU can be used here\. Leave embed_runtime_cache out, or export on a machine",
        ),
        (
            {"cuda.devices": "1", "tensorrt.rtx.error": "no file found"},
            r"TensorRT-RTX cannot be loaded here \(no file found\)",
        ),
    ],
)
def test_refuses_a_machine_that_cannot_compile(machine, facts, text, tmp_path):
    machine.facts = facts
    with pytest.raises(_errors.ExportError, match=f"embed_runtime_cache=True needs the GPU that will .*: {text}"):
        save(nn.Linear(3, 4).eval(), tmp_path / "model.pte", arg_inputs=(X,), embed_runtime_cache=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [_errors.DelegateCompatibilityError, _errors.NotRegisteredError])
def test_refuses_a_machine_without_the_delegate(monkeypatch, error):
    def native():
        raise error("The library is missing. Reinstall the package.")

    monkeypatch.setattr(_loader, "native", native)
    with pytest.raises(
        _errors.ExportError,
        match=r"not registered\. The library is missing\. Reinstall the package\. Leave embed_runtime_cache out",
    ):
        TensorRTPartitioner(embed_runtime_cache=True)


def test_refuses_a_gpu_that_is_not_there(machine):
    with pytest.raises(_errors.ExportError, match=r"that is 'cuda:3', but 1 GPU\(s\) can be used here"):
        lower_model(nn.Linear(3, 4).eval(), X, device="cuda:3", embed_runtime_cache=True)


def test_refuses_to_embed_for_tensorrt(machine, monkeypatch):
    blob = pack_blob(unpack_blob(lower_model(nn.Linear(3, 4).eval(), X).delegates[0].processed_bytes).metadata, b"ftrt")
    with pytest.raises(
        _errors.ExportError, match="nothing to embed: an engine was compiled by TensorRT, and engines of"
    ):
        _compiled_kernels.compile_kernels(blob)
    monkeypatch.setattr(_compiled_kernels, "uses_tensorrt_rtx", lambda: False)
    with pytest.raises(
        _errors.ExportError, match="nothing to embed: the installed Torch-TensorRT builds with TensorRT,"
    ):
        TensorRTPartitioner(embed_runtime_cache=True)


def test_says_where_the_cause_is_when_compiling_fails(machine):
    machine.code = 0x21
    with pytest.raises(_errors.ExportError, match=r"could not be compiled on this machine \(ExecuTorch error 0x21\)"):
        lower_model(nn.Linear(3, 4).eval(), X, embed_runtime_cache=True)
