"""An export prints what concerns the user and nothing else, and leaves the loggers as they were."""

from __future__ import annotations

import logging
import subprocess
import sys

EXPORT = """
import logging, sys, torch
logging.basicConfig(level=logging.WARNING)
from torch import nn
from torch_tensorrt_executorch_runtime.export import save

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, bias=False)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x, rows):
        y = self.convolution(x).flatten(2).transpose(1, 2)
        return self.attention(y, y, y, need_weights=False)[0].masked_fill(y > 2, 0), rows.relu() * 2

rows = {0: torch.export.Dim("rows", min=0, max=8)}
inputs = (torch.rand(1, 3, 6, 6), torch.rand(3, 4))
save(Model().eval(), sys.argv[1], arg_inputs=inputs, dynamic_shapes=(None, rows), disable_tf32=True)
"""
# Torch-TensorRT's library says so itself while it is loaded on a machine without a driver.
WITHOUT_DRIVER = "Unable to read CUDA capable devices"


def test_an_export_prints_nothing_that_does_not_concern_the_user(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, str(tmp_path / "model.pte")], capture_output=True, text=True, check=True
    )

    lines = [line for line in (done.stdout + done.stderr).splitlines() if line and WITHOUT_DRIVER not in line]
    assert lines == []


def test_loggers_get_their_levels_back():
    from torch_tensorrt_executorch_runtime.export._torch_tensorrt import quiet

    logger = logging.getLogger("some.chatty.library")
    logger.setLevel(logging.DEBUG)
    with quiet("some.chatty.library"):
        assert not logger.isEnabledFor(logging.WARNING)
        assert logger.isEnabledFor(logging.ERROR)
    assert logger.level == logging.DEBUG
