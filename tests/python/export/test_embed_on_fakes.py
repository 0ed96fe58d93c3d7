"""From ``save(embed_runtime_cache=True)`` to a first load that compiles nothing, against the fake TensorRT-RTX.

Only the builder is replaced: it returns an engine that the fake runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fakes import BUILD, needs_fakes, on_fakes, outcomes_of
from support.process import PACKAGE, command, run_code

pytestmark = needs_fakes

TESTS = Path(__file__).parents[2]
SETUP = f"""
import ctypes, json, os, pathlib, sys, tempfile, traceback
folder = pathlib.Path(tempfile.mkdtemp())
os.environ["TENSORRT_EXECUTORCH_CACHE"] = str(folder / "cache")
sys.path.insert(0, {str(TESTS / "fakes")!r})
import torch
import {PACKAGE} as package
from executorch.runtime import Runtime
from fake_engine import Tensor, engine_bytes, operation
from torch.testing import assert_close as same
from {PACKAGE}.export import _engine_builder, save
from {PACKAGE}.inspect import inspect_program

fakes = ctypes.CDLL({str(BUILD / "fakes" / "cuda" / "libfake_cudart.so")!r})
fakes.fake_cuda_count.restype = ctypes.c_long

def build_engine(module, inputs, outputs, options):
    bindings = [*inputs, *outputs]
    tensors = [Tensor(b.name, b in inputs, str(b.dtype).removeprefix("torch."), b.shape) for b in bindings]
    return engine_bytes(tensors, [operation(outputs[0].name, "linear", [inputs[0].name], constant=1)]), 1

_engine_builder.build_engine = build_engine

class Plus(torch.nn.Module):
    def forward(self, x):
        return x + 1

x = torch.rand(2, 3)

def compiled_by(action):
    before = fakes.fake_cuda_count(b"live.tensorrt_compilations")
    action()
    return fakes.fake_cuda_count(b"live.tensorrt_compilations") - before

def run(path, method="forward"):
    program = Runtime.get().load_program(path)
    same(program.load_method(method).execute((x,))[0], x + 1)

def saved(name, **options):
    path = folder / name
    package.set_option("runtime_cache_folder", "off")  # as on two machines: nothing is shared but the file
    counts = compiled_by(lambda: save(Plus(), path, arg_inputs=(x,), **options))
    return path, counts
"""

CASES = {
    "a_first_load_compiles_nothing": """
        path, at_export = saved("with.pte", embed_runtime_cache=True)
        assert at_export == 1
        assert compiled_by(lambda: run(path)) == 0
        plain, at_export = saved("without.pte")
        assert at_export == 0
        assert compiled_by(lambda: run(plain)) == 1
    """,
    "the_file_says_what_it_carries": """
        path, _ = saved("described.pte", embed_runtime_cache=True)
        (kernels,) = inspect_program(path).methods[0].engines[0].kernels
        assert (kernels.version, kernels.gpu, kernels.whole) == ("1.6.1.120", "Fake GPU 0", True), kernels
    """,
    "damaged_kernels_are_compiled": """
        path, _ = saved("damaged.pte", embed_runtime_cache=True)
        data = path.read_bytes()
        assert data.count(b"for every shape") == 1
        path.write_bytes(data.replace(b"for every shape", b"for every shapE"))
        assert compiled_by(lambda: run(path)) == 1
    """,
    "kernels_of_another_gpu_are_left_alone": """
        path, _ = saved("other.pte", embed_runtime_cache=True)
        path.write_bytes(path.read_bytes().replace(b"/Fake GPU 0", b"/Fake GPU 7"))
        assert compiled_by(lambda: run(path)) == 1
    """,
    "the_second_gpu_compiles_for_itself": """
        path, _ = saved("second.pte", embed_runtime_cache=True, device="cuda:1")
        assert compiled_by(lambda: run(path)) == 0
        assert inspect_program(path).methods[0].engines[0].kernels[0].gpu == "Fake GPU 1"
    """,
    "two_methods_share_one_copy": """
        path = folder / "two.pte"
        programs = {name: torch.export.export(Plus(), (x,)) for name in ("a", "b")}
        assert compiled_by(lambda: save(programs, path, embed_runtime_cache=True)) == 1
        assert path.read_bytes().count(b"TRTKC01") == 1
        for method in programs:
            assert compiled_by(lambda: run(path, method)) == 0
    """,
    "a_failing_compilation_is_an_export_error": """
        fakes.fake_cuda_fail(b"tensorrt.create_context", 1, 999)
        try:
            saved("failing.pte", embed_runtime_cache=True)
        except package.ExportError as error:
            assert "could not be compiled on this machine (ExecuTorch error 0x" in str(error), error
        else:
            raise AssertionError("saved")
        assert not (folder / "failing.pte").exists()
    """,
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What became of each case: an empty text, or the traceback."""
    return outcomes_of(CASES, SETUP)


@pytest.mark.parametrize("case", CASES)
def test_embeds(outcomes: dict[str, str], case: str) -> None:
    assert not outcomes[case], outcomes[case]


MODEL = """
import torch
def model(): return torch.nn.Linear(4, 4).eval(), (torch.ones(2, 4),)
"""


def test_the_command_refuses_with_the_same_sentence(tmp_path: Path) -> None:
    (tmp_path / "mymodels.py").write_text(MODEL)
    given = ("export", "mymodels:model", "model.pte", "--embed-runtime-cache")
    result = command(*given, cwd=tmp_path, path=[BUILD / "package"], env={"FAKE_CUDA_DEVICES": "0"})
    assert result.code == 1
    assert "cannot be exported: embed_runtime_cache=True needs the GPU that will run the program" in result.last_line
    assert not (tmp_path / "model.pte").exists()


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"FAKE_CUDA_DEVICES": "0"}, "no NVIDIA GPU can be used here (no CUDA-capable device is detected)"),
        ({"TENSORRT_EXECUTORCH_LIBRARY": "/nothing/libtensorrt_rtx.so.1"}, "TensorRT-RTX cannot be loaded here ("),
        ({"TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION": "1"}, "the delegate is not registered. TensorRTBackend is not"),
    ],
    ids=["gpu", "tensorrt", "delegate"],
)
def test_says_what_a_machine_lacks(environment: dict[str, str], reason: str) -> None:
    code = f"""
        from {PACKAGE}.export import TensorRTPartitioner
        TensorRTPartitioner(embed_runtime_cache=True)
    """
    result = on_fakes(run_code, code, env=environment)
    assert result.code == 1
    expected = f"embed_runtime_cache=True needs the GPU that will run the program: {reason}"
    assert expected in result.last_line, result.err
    assert result.last_line.endswith("on a machine like the one that will run the program.")
