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
# Exporting and loading are processes of their own, as on two machines: nothing is shared but the files.
COMMON = f"""
import ctypes, json, os, pathlib, sys, traceback
os.environ["TENSORRT_EXECUTORCH_CACHE"] = "off"
import torch
import {PACKAGE} as package
from torch.testing import assert_close as same
from {PACKAGE}.inspect import inspect_program

fakes = ctypes.CDLL({str(BUILD / "fakes" / "cuda" / "libfake_cudart.so")!r})
fakes.fake_cuda_count.restype = ctypes.c_long
x = torch.ones(2, 3)

def compiled_by(action):
    before = fakes.fake_cuda_count(b"live.tensorrt_compilations")
    action()
    return fakes.fake_cuda_count(b"live.tensorrt_compilations") - before
"""
EXPORT = f"""
{COMMON}
sys.path.insert(0, {str(TESTS / "fakes")!r})
from fake_engine import Tensor, engine_bytes, operation
from {PACKAGE}.export import _engine_builder, save

def build_engine(module, inputs, outputs, options):
    bindings = [*inputs, *outputs]
    tensors = [Tensor(b.name, b in inputs, str(b.dtype).removeprefix("torch."), b.shape) for b in bindings]
    # The model adds a number of its own, so that the engine of each file is another.
    number = float(module(torch.zeros(2, 3))[0][0, 0])
    return engine_bytes(tensors, [operation(outputs[0].name, "linear", [inputs[0].name], constant=number)]), 1

_engine_builder.build_engine = build_engine

class Plus(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x + self.number

def saved(name, number, **options):
    path = folder / f"{{name}}.pte"
    options = {{"embed_runtime_cache": True, **options}}
    return path, compiled_by(lambda: save(Plus(number), path, arg_inputs=(x,), **options))
"""
EXPORTS = {
    "with_and_without": """
        assert saved("with", 1)[1] == 1
        assert saved("without", 2, embed_runtime_cache=False)[1] == 0
    """,
    "what_the_file_says": """
        (kernels,) = inspect_program(folder / "with.pte").methods[0].engines[0].kernels
        assert (kernels.version, kernels.gpu, kernels.whole) == ("1.6.1.120", "Fake GPU 0", True), kernels
    """,
    "damaged": """
        path, _ = saved("damaged", 3)
        data = path.read_bytes()
        assert data.count(b"for every shape") == 1
        path.write_bytes(data.replace(b"for every shape", b"for every shapE"))
    """,
    "for_another_gpu": """
        path, _ = saved("other", 4)
        path.write_bytes(path.read_bytes().replace(b"/Fake GPU 0", b"/Fake GPU 7"))
    """,
    "for_the_second_gpu": """
        path, _ = saved("second", 5, device="cuda:1")
        assert inspect_program(path).methods[0].engines[0].kernels[0].gpu == "Fake GPU 1"
    """,
    "two_methods": """
        path = folder / "two.pte"
        programs = {name: torch.export.export(Plus(6), (x,)) for name in ("a", "b")}
        assert compiled_by(lambda: save(programs, path, embed_runtime_cache=True)) == 1
        assert path.read_bytes().count(b"TRTKC01") == 1
    """,
    "a_failing_compilation": """
        fakes.fake_cuda_fail(b"tensorrt.create_context", 1, 999)
        try:
            saved("failing", 7)
        except package.ExportError as error:
            assert "could not be compiled on this machine (ExecuTorch error 0x" in str(error), error
        else:
            raise AssertionError("saved")
        assert not (folder / "failing.pte").exists()
    """,
}
LOAD = f"""
{COMMON}
from executorch.runtime import Runtime
kept = []  # a method does not keep its program

def run(name, number, method):
    kept.append(Runtime.get().load_program(folder / f"{{name}}.pte"))
    same(kept[-1].load_method(method).execute((x,))[0], x + number)

def compiled(name, number, method="forward"):
    return compiled_by(lambda: run(name, number, method))
"""
LOADS = {
    "with_its_kernels": "assert compiled('with', 1) == 0",
    "without": "assert compiled('without', 2) == 1",
    "damaged": "assert compiled('damaged', 3) == 1",
    "for_another_gpu": "assert compiled('other', 4) == 1",
    "for_the_second_gpu": "assert compiled('second', 5) == 0",
    "two_methods": "assert compiled('two', 6, 'a') == compiled('two', 6, 'b') == 0",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each export and each load: an empty text, or the traceback."""
    folder = f"folder = pathlib.Path({str(tmp_path_factory.mktemp('files'))!r})\n"
    exports = outcomes_of(EXPORTS, EXPORT + folder)
    loads = outcomes_of(LOADS, LOAD + folder)
    return {f"export {name}": text for name, text in exports.items()} | {
        f"load {name}": text for name, text in loads.items()
    }


@pytest.mark.parametrize("case", [*(f"export {name}" for name in EXPORTS), *(f"load {name}" for name in LOADS)])
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
