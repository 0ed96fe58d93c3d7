"""Long exports are never silent: a bar on a terminal, one log line per engine elsewhere."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys

import torch
from export_helpers import One
from torch import nn

from torch_tensorrt_executorch_runtime.export import save

X = torch.rand(4, 8)


def test_logs_one_line_per_engine(tmp_path, caplog):
    module = One(lambda x: torch.cos(torch.erfinv(torch.tanh(x))))

    with caplog.at_level(logging.INFO, logger="torch_tensorrt_executorch_runtime.export"):
        save(module, tmp_path / "model.pte", arg_inputs=(X,))

    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert len(lines) == 2
    assert all(line.startswith("Built a TensorRT engine: 1 layers, 0.1 MB, ") for line in lines)


def test_writes_nothing_to_the_output_when_it_is_no_terminal(tmp_path, capsys):
    save(nn.Linear(8, 4).eval(), tmp_path / "model.pte", arg_inputs=(X,))

    assert capsys.readouterr().out == ""


def test_shows_a_bar_on_a_terminal(tmp_path):
    code = (
        "import torch, sys\n"
        "from torch_tensorrt_executorch_runtime.export import save\n"
        "save(torch.nn.Linear(8, 4).eval(), sys.argv[1], arg_inputs=(torch.rand(4, 8),))\n"
    )
    parent, child = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "model.pte")], stderr=child) as process:
        os.close(child)
        # Read while it runs: a terminal takes a few kilobytes only, and then its writer waits.
        seen = _read_all(parent)
    os.close(parent)
    assert process.returncode == 0

    for text in ("exporting the model", "lowering to TensorRT"):
        assert text in seen


def _read_all(descriptor: int) -> str:
    chunks = []
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:
            break
        if not chunk:
            break
        chunks.append(chunk)
    return b"".join(chunks).decode(errors="replace")
