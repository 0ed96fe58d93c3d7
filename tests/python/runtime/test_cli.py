from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from support.process import Result, command, run_code
from torch_tensorrt_executorch_runtime import DelegateError
from torch_tensorrt_executorch_runtime.cli._inputs import make_inputs
from torch_tensorrt_executorch_runtime.cli.export import load_source
from torch_tensorrt_executorch_runtime.inspect import MethodInfo, ValueInfo, inspect_program

GOLDEN = Path(__file__).parent / "golden"
# What depends on the machine, the time or the release of TensorRT.
VOLATILE = {"build_seconds", "layers", "offset", "path", "sha256", "size_bytes", "version"}


def scrubbed(value: Any) -> Any:
    """Replace what changes from run to run by its type."""
    if isinstance(value, dict):
        return {key: type(item).__name__ if key in VOLATILE else scrubbed(item) for key, item in value.items()}
    return [scrubbed(item) for item in value] if isinstance(value, list) else value


def refused(result: Result, code: int = 1) -> str:
    """Return the sentence of a command that ended with an error and showed no traceback."""
    assert result.code == code, (result.out, result.err)
    assert "Traceback" not in result.err
    assert result.last_line.startswith("trt-executorch: ")
    return result.last_line.removeprefix("trt-executorch: ")


@pytest.mark.parametrize("name", ["outside", "dynamic", "plain"])
def test_inspect_prints_the_golden_document(programs: Path, name: str) -> None:
    result = command("inspect", programs / f"{name}.pte", "--json")
    assert result.code == 0, result.err
    assert scrubbed(result.json) == json.loads((GOLDEN / f"inspect_{name}.json").read_text())


def test_inspect_shows_people_the_same(programs: Path) -> None:
    result = command("inspect", programs / "outside.pte")
    assert result.code == 0, result.err
    for text in (
        "1 method, 2 engines",
        "method forward",
        "delegate 1: TensorRTBackend",
        "TensorRT-RTX 1.6.",
        "for every GPU that TensorRT-RTX supports",
        "(recorded and right)",
        "float32  [4, 128]",
        "operator aten::erfinv.out, called once",
        "planned memory on cuda:0",
        "TensorRT has no converter",
    ):
        assert text in result.out, text


def test_inspect_shows_the_range_of_a_dynamic_input(programs: Path) -> None:
    out = command("inspect", programs / "dynamic.pte").out
    (line,) = [line for line in out.splitlines() if line.lstrip().startswith("input") and "?" in line]
    assert "[?, 16]" in line
    assert line.rstrip().endswith("[4, 16]    [8, 16]")


def test_inspect_refuses_a_missing_and_a_damaged_file(programs: Path, tmp_path: Path) -> None:
    missing = tmp_path / "nothing.pte"
    assert refused(command("inspect", missing)) == f"{missing}: No such file or directory."
    short = tmp_path / "short.pte"
    short.write_bytes((programs / "engine.pte").read_bytes()[:-10])
    assert "The file is cut off" in refused(command("inspect", short))
    assert "Is a directory" in refused(command("inspect", tmp_path))


def test_doctor_reports_the_machine(programs: Path) -> None:
    result = command("doctor", "--json")
    assert result.code == 0, result.err
    assert result.json["registered"] is True
    assert result.json["error"] is None
    people = command("doctor")
    assert "registered  " in people.out
    assert "TensorRT rtx" in people.out


def test_doctor_reports_a_machine_on_which_the_import_fails(distribution: Callable[..., Path]) -> None:
    path = [distribution("executorch", "1.4.1")]
    result = command("doctor", "--json", path=path)
    assert "ExecuTorch 1.4.1 is too old" in refused(result)
    assert result.json["registered"] is False
    assert "too old" in result.json["error"]
    assert result.json["executorch"]["version"] == "1.4.1"
    assert "ExecuTorch  1.4.1" in command("doctor", path=path).out


def test_inspect_works_on_a_machine_on_which_the_import_fails(
    programs: Path, distribution: Callable[..., Path]
) -> None:
    result = command("inspect", programs / "engine.pte", path=[distribution("executorch", "1.4.1")])
    assert result.code == 0, result.err


def test_check_says_what_stands_against_a_program(programs: Path) -> None:
    result = command("check", programs / "outside.pte", "--json")
    assert result.code == 1
    assert result.json["runs"] is False
    assert any("aten::erfinv.out" in problem for problem in result.json["problems"])
    assert "aten::erfinv.out" in command("check", programs / "outside.pte").err


def test_check_passes_a_program_that_runs_here(programs: Path) -> None:
    result = command("check", programs / "plain.pte")
    assert result.code == 0, result.err
    assert "nothing stands against running it here" in result.out
    assert command("check", programs / "plain.pte", "--json").json["runs"] is True


def test_check_needs_the_delegate(programs: Path) -> None:
    result = command("check", programs / "plain.pte", env={"TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION": "1"})
    assert "TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION=1 is set" in refused(result)


def test_run_runs_given_and_random_inputs(programs: Path, tmp_path: Path) -> None:
    x = numpy.full((2, 16), 0.5, numpy.float32)
    numpy.save(tmp_path / "x.npy", x)
    result = command(
        "run", programs / "plain.pte", "--input", tmp_path / "x.npy", "--repeat", "3", "--seed", "1",
        "--output-folder", tmp_path / "out", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    first, second = result.json["outputs"]
    assert (first["type"], first["shape"]) == ("float32", [2, 8])
    assert (second["type"], second["shape"]) == ("int64", [2, 8])
    assert result.json["calls"] == 3
    assert 0 < result.json["fastest_ms"] <= result.json["median_ms"]
    written = numpy.load(tmp_path / "out" / "output_0.npy")
    assert written.shape == (2, 8)
    assert written.flatten()[:5].tolist() == pytest.approx(first["first"])
    people = command("run", programs / "plain.pte")
    assert "10 calls of forward: median" in people.out


def test_run_refuses_an_unknown_method(programs: Path) -> None:
    sentence = refused(command("run", programs / "plain.pte", "--method", "other"))
    assert sentence.endswith("has no method 'other'. It has: forward.")


REFUSED_INPUTS = {
    "long.npy": r"long.npy has the shape \[3, 16\], but input 0 takes \[2, 16\]\.",
    "half.npy": r"half.npy holds float16, but input 0 takes float32\.",
    "text.npy": r"text.npy cannot be read as a \.npy file",
    "none.npy": r"The input file .*none.npy does not exist\.",
}


@pytest.mark.parametrize("name", REFUSED_INPUTS)
def test_inputs_that_do_not_fit_are_refused(programs: Path, tmp_path: Path, name: str) -> None:
    numpy.save(tmp_path / "long.npy", numpy.zeros((3, 16), numpy.float32))
    numpy.save(tmp_path / "half.npy", numpy.zeros((2, 16), numpy.float16))
    (tmp_path / "text.npy").write_text("hello")
    (method,) = inspect_program(programs / "plain.pte").methods
    with pytest.raises(DelegateError, match=REFUSED_INPUTS[name]):
        make_inputs(method, [tmp_path / name], seed=0)


def test_too_many_inputs_are_refused(programs: Path) -> None:
    (method,) = inspect_program(programs / "plain.pte").methods
    with pytest.raises(DelegateError, match="3 input files were given, but method 'forward' has 2 inputs"):
        make_inputs(method, [Path("a"), Path("b"), Path("c")], seed=0)


def test_made_up_inputs_have_the_types_of_the_program_and_follow_the_seed() -> None:
    import torch

    kinds = ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool")
    values = tuple(ValueInfo("tensor", kind, (3, 4), dynamic=False) for kind in kinds)
    method = MethodInfo("forward", values, (), (), (), (), ())
    made = make_inputs(method, [], seed=3)
    assert [str(item.dtype) for item in made] == [f"torch.{kind}" for kind in kinds]
    assert all(tuple(item.shape) == (3, 4) for item in made)
    assert all(torch.equal(one, two) for one, two in zip(made, make_inputs(method, [], seed=3), strict=True))


def test_an_input_that_is_no_tensor_is_refused() -> None:
    method = MethodInfo("forward", (ValueInfo("int", "", (), dynamic=False),), (), (), (), (), ())
    with pytest.raises(DelegateError, match="Input 0 is a value of the kind int"):
        make_inputs(method, [], seed=0)


def test_run_says_where_to_look_when_a_program_cannot_be_loaded(programs: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    sentence = refused(command("run", programs / "engine.pte"))
    assert "engine.pte cannot be loaded" in sentence
    assert "trt-executorch check" in sentence


MODELS = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
def model(): return net, (torch.ones(2, 4),)
def dynamic(): return net, (torch.ones(4, 4),), ({0: torch.export.Dim("b", min=2, max=8)},)
def program(): return torch.export.export(net, (torch.ones(2, 4),))
def broken(): raise ValueError("no weights\\nfound")
def four(): return 1, 2, 3, 4
def number(): return 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mymodels.py").write_text(MODELS)
    return tmp_path


@pytest.mark.parametrize("name", ["model", "dynamic"])
def test_export_writes_a_program(folder: Path, name: str) -> None:
    result = command(
        "export", f"mymodels:{name}", "model.pte", "--compute-capability", "8.6", "--compute-capability", "8.9",
        "--use-shared-activation-scratch", "--json", cwd=folder,
    )  # fmt: skip
    assert result.code == 0, result.err
    (engine,) = result.json["engines"]
    assert engine["compute_capabilities"] == ["8.6", "8.9"]
    assert (folder / "model.pte").stat().st_size == result.json["files"][0]["size_bytes"]
    (delegate,) = inspect_program(folder / "model.pte").methods[0].delegates
    assert delegate.compile_specs["use_shared_activation_scratch"] == "1"


def test_export_reads_a_saved_program_and_tells_people(folder: Path) -> None:
    save = "import mymodels, torch; torch.export.save(mymodels.program(), 'saved.pt2')"
    assert run_code(save, cwd=folder, path=[folder]).code == 0
    result = command("export", "saved.pt2", "model.pte", cwd=folder)
    assert result.code == 0, result.err
    assert "method forward: delegates ['TensorRTBackend']" in result.out


def test_export_refuses_with_a_sentence_and_writes_nothing(folder: Path) -> None:
    assert refused(command("export", "mymodels:broken", "model.pte", cwd=folder)) == (
        "mymodels:broken raised ValueError: no weights found"
    )
    text = refused(command("export", "mymodels:number", "model.pte", cwd=folder))
    assert "mymodels:number cannot be exported: The source is an int" in text
    assert not (folder / "model.pte").exists()


REFUSED_SOURCES = {
    "mymodels:four": r"returned 4 values; expected \(module, arg_inputs\)",
    "mymodels:absent": "module 'mymodels' has no attribute 'absent'",
    "nomodels:model": "the module nomodels is not found",
    "mymodels": "is neither module:function nor the name of a .pt2 file",
    "absent.pt2": "absent.pt2 does not exist",
    "bad.pt2": "bad.pt2 cannot be read as an exported program: it is no archive",
    "other.pt2": "other.pt2 cannot be read as an exported program",
}


@pytest.mark.parametrize("source", REFUSED_SOURCES)
def test_sources_that_give_no_model_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    (folder / "bad.pt2").write_text("no program")
    with zipfile.ZipFile(folder / "other.pt2", "w") as archive:
        archive.writestr("hello.txt", "hello")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mymodels", raising=False)
    with pytest.raises(DelegateError, match=REFUSED_SOURCES[source]):
        load_source(source)


def test_wrong_usage_ends_with_2() -> None:
    assert command("inspect").code == 2
    assert command("nonsense").code == 2
    assert command("run", "x.pte", "--repeat", "0").code == 2


def test_help_lists_the_commands() -> None:
    out = command("--help").out
    assert all(name in out for name in ("doctor", "inspect", "check", "export", "run", "bench"))


def test_the_reader_of_a_pipe_may_go_away(programs: Path) -> None:
    result = run_code(
        f"""
        import subprocess, sys
        child = subprocess.Popen(
            [sys.executable, "-m", "torch_tensorrt_executorch_runtime", "inspect", {str(programs / "outside.pte")!r}],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdout.close()
        print(child.stderr.read())
        child.wait()
        """
    )
    assert "Traceback" not in result.out
    assert "Exception" not in result.out


def test_the_installed_script_is_the_same_command() -> None:
    script = Path(sys.executable).with_name("trt-executorch")
    if not script.exists():
        pytest.skip("the package is on PYTHONPATH and not installed")
    assert shutil.which(str(script))
    import subprocess

    done = subprocess.run([script, "doctor", "--json"], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["registered"] is True
