"""The Python examples run to their end with and without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(script: str, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_export_and_run_writes_a_program(tmp_path: Path) -> None:
    output = run("export_and_run.py", tmp_path)
    assert (tmp_path / "model.pte").stat().st_size > 10_000
    last = "largest difference" if torch.cuda.is_available() else "running it needs an NVIDIA GPU"
    assert last in output.splitlines()[-1]


def test_the_demo_writes_and_shows_both_programs(tmp_path: Path) -> None:
    output = run("demo.py", tmp_path, "--output", "demo")
    assert "chelsea: eager PyTorch says Egyptian cat (class 285)" in output
    assert "coffee: eager PyTorch says espresso (class 967)" in output
    assert (tmp_path / "demo/model.pte").stat().st_size > 18_000_000, "all weights of the model are in the file"
    assert (tmp_path / "demo/model_fp16.pte").stat().st_size > 9_000_000
    assert output.count("delegates ['TensorRTBackend']") == 2, "the whole model is one engine in each precision"
    if not torch.cuda.is_available():
        assert output.splitlines()[-1].startswith("No NVIDIA GPU on this machine")
