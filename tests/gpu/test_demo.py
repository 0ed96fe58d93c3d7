"""The demo and the C++ runner, as users run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import models

from .builds import cpp_runner
from .results import Recorder

pytestmark = pytest.mark.gpu

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMITS = {"fp16": 1e-2, "fp32": 1e-3}


@pytest.fixture(scope="module")
def runner() -> Path:
    return cpp_runner()


@pytest.fixture(scope="module")
def demo_results(runner: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, EXAMPLES / "demo.py", "--output", folder]
    command += ["--runner", runner, "--json", folder / "results.json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    if out := os.environ.get("OUT"):
        (Path(out) / "demo.log").write_text(done.stdout)
    return list(json.loads((folder / "results.json").read_text()))


def test_the_demo_finds_what_eager_finds(demo_results: list[dict[str, Any]], recorder: Recorder) -> None:
    recorder.note("demo", results=demo_results)
    assert {result["runner"] for result in demo_results} == {"executorch.runtime", "C++ runner"}
    wrong = sum(result["top5"] != result["eager_top5"] for result in demo_results)
    good = [recorder.check("demo.top5_equal", wrong, limit=0, unit="results whose top 5 differ")]
    for result in demo_results:
        precision, error = result["precision"], result["relative_error"]
        name = f"demo.logits_relerr_{precision}"
        good.append(recorder.check(name, error, limit=LIMITS[precision], unit="relative error"))
    assert all(good), demo_results


@pytest.mark.parametrize("name", ["encoder", "three_inputs", "four_outputs", "int64"])
def test_the_cpp_runner_gives_what_python_gives(name: str, runner: Path, tmp_path: Path, recorder: Recorder) -> None:
    from torch_tensorrt_executorch_runtime.export import save

    from .programs import load, wrong_elements

    method = models.CASES[name].methods(torch.float32)["forward"]
    path = tmp_path / "model.pte"
    save(method.export(), path)
    outputs = run_in_cpp(runner, path, method.inputs, load(path).execute(list(method.inputs)))
    wrong = wrong_elements(*outputs)
    assert recorder.check("cpp_runner.equal", wrong, limit=0, unit="elements that differ from executorch.runtime")


def test_the_cpp_runner_takes_a_shape_and_a_method(runner: Path, tmp_path: Path) -> None:
    from torch_tensorrt_executorch_runtime.export import save

    methods = models.CASES["dynamic_encoder"].methods(torch.float32)
    path = tmp_path / "model.pte"
    save({"encode": methods["forward"].export()}, path)
    (x,) = methods["forward"].calls[5]
    shape = ",".join(map(str, x.shape))
    expected = methods["forward"].expected((x,))
    actual, _ = run_in_cpp(runner, path, (x,), expected, "--method", "encode", "--shape", shape)
    assert models.relative_error(actual[0], expected[0]) <= models.TOLERANCE[torch.float32]


def run_in_cpp(
    runner: Path, path: Path, inputs: tuple[torch.Tensor, ...], like: Any, *options: str
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Run a program through files; return its outputs in the types and shapes of `like`, and `like`."""
    files = []
    for index, x in enumerate(inputs):
        files.append(path.with_name(f"input{index}.bin"))
        x.numpy().tofile(files[-1])
    prefix = path.with_name("output")
    command = [runner, path, *files, "--output", prefix, *options]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    assert "time per call" in done.stdout
    outputs = []
    for index, y in enumerate(like):
        flat = numpy.fromfile(f"{prefix}{index}.bin", y.numpy().dtype)
        outputs.append(torch.from_numpy(flat).reshape(y.shape))
    return outputs, list(like)
