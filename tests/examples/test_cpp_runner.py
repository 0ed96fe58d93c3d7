"""The C++ runner, built against the installed wheels, on programs without a GPU; every sentence it can end with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from torch import Tensor

from gpu.builds import cpp_runner


class AddTwice(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x + y * 2, x > y, x.to(torch.int64)


X, Y = torch.tensor([[1.0, -2.0, 3.5], [0.0, 8.0, 4.0]]), torch.tensor([[0.5, 1.0, -1.0], [2.0, 0.0, 9.0]])


@pytest.fixture(scope="module")
def runner() -> Path:
    return cpp_runner()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program without delegates, whose batch is dynamic up to 8, and its inputs."""
    from executorch.exir import to_edge_transform_and_lower

    folder = tmp_path_factory.mktemp("portable")
    batch = {0: torch.export.Dim("batch", min=1, max=8)}
    program = torch.export.export(AddTwice(), (X, Y), dynamic_shapes=(batch, batch))
    (folder / "model.pte").write_bytes(to_edge_transform_and_lower(program).to_executorch().buffer)
    X.numpy().tofile(folder / "x.bin")
    Y.numpy().tofile(folder / "y.bin")
    return folder


def run(runner: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([runner, *words], cwd=folder, capture_output=True, text=True, check=False)


SHAPES = ("--shape", "2,3", "--shape", "2,3")


def test_prints_and_writes_what_the_program_computes(runner: Path, files: Path) -> None:
    done = run(runner, files, "model.pte", "x.bin", "y.bin", *SHAPES, "--repeat", "10", "--output", "out")
    assert done.returncode == 0, done.stderr
    assert "output 0: Float [2, 3], largest values\n       5  22\n       4  8\n       3  4\n" in done.stdout
    assert "time per call: " in done.stdout
    assert "us (median of 10)" in done.stdout
    for index, expected in enumerate(AddTwice()(X, Y)):
        actual = numpy.fromfile(files / f"out{index}.bin", expected.numpy().dtype).reshape(expected.shape)
        assert numpy.array_equal(actual, expected.numpy())


BAD_CALLS = {
    "nothing": ([], "usage: cpp_runner MODEL.pte INPUT.bin..."),
    "a model that is not there": (["nope.pte"], "There is no file nope.pte."),
    "a model that is no program": (["x.bin", "x.bin"], "Cannot load x.bin: "),
    "a method that is not there": (["model.pte", "--method", "other"], "Cannot find method other: "),
    "too few inputs": (["model.pte", "x.bin"], "forward takes 2 input files, not 1."),
    "an input that is not there": (["model.pte", "z.bin", "y.bin", *SHAPES], "Cannot open z.bin."),
    "an input of the wrong size": (
        ["model.pte", "x.bin", "y.bin"],
        "x.bin holds 24 bytes, but this Float input takes 96. Write it in C order, or give its shape with --shape.",
    ),
    "more shapes than inputs": (
        ["model.pte", "x.bin", "y.bin", *SHAPES, "--shape", "1"],
        "3 times --shape for 2 input files.",
    ),
    "a shape that is no number": (["model.pte", "--shape", "2,x"], '"x" is no whole number.'),
    "a negative number": (["model.pte", "--repeat", "-3"], '"-3" is no whole number.'),
    "an option without a value": (["model.pte", "--repeat"], "--repeat needs a value."),
    "an unknown option": (["model.pte", "--fast", "1"], "Unknown option --fast."),
    "an output that cannot be written": (
        ["model.pte", "x.bin", "y.bin", *SHAPES, "--output", "/nowhere/out"],
        "Cannot write /nowhere/out0.bin.",
    ),
    "shapes that do not fit together": (
        ["model.pte", "x.bin", "y.bin", "--shape", "2,3", "--shape", "3,2"],
        "Cannot run forward: Error::InvalidArgument. The log above says why.",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_ends_with_a_sentence(name: str, runner: Path, files: Path) -> None:
    words, sentence = BAD_CALLS[name]
    done = run(runner, files, *words)
    assert done.returncode == 1
    assert f"cpp_runner: {sentence}" in done.stderr


def test_a_gpu_program_without_a_driver_is_refused_with_a_reason(runner: Path, files: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has an NVIDIA GPU")
    from torch_tensorrt_executorch_runtime.export import save

    save(torch.nn.Linear(3, 3).eval(), files / "engine.pte", arg_inputs=(X,))
    done = run(runner, files, "engine.pte", "x.bin")
    assert done.returncode == 1
    assert "No NVIDIA driver" in done.stderr
    assert "cpp_runner: Cannot load method forward: " in done.stderr
