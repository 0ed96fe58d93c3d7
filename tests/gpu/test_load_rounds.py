"""Nothing is left behind by loading, running and destroying a program many times."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import models

from .builds import kernel_library
from .results import Recorder

pytestmark = pytest.mark.gpu

ROUNDS = 200
WARM_UP = 50
MIB = 2**20

# The driver hands out device memory in blocks of 2 MiB: one block may come late, two would be a leak, and
# a leak of anything that a round allocates shows as many.
DEVICE_LIMIT = 2 * MIB
# 150 rounds: a leak of one blob, one engine object or one context (each above 100 kB here) would be 15 MB or more;
# what the allocator and the interpreter keep aside is below this.
RESIDENT_LIMIT = 8 * MIB


def test_memory_is_flat_over_200_rounds(tmp_path: Path, recorder: Recorder) -> None:
    from torch_tensorrt_executorch_runtime.export import save

    # Two engines, an operator of the CPU between them, and kernels that compile fast: each round compiles them anew.
    method = models.CASES["cos_erfinv_tanh"].methods(torch.float32)["forward"]
    path = tmp_path / "model.pte"
    save(method.export(), path)
    inputs = io.BytesIO()
    torch.save(list(method.inputs), inputs)
    script = Path(__file__).with_name("load_rounds.py")
    start = time.monotonic()
    command = [sys.executable, script, path, str(ROUNDS), kernel_library()]
    done = subprocess.run(command, input=inputs.getvalue(), stdout=subprocess.PIPE, check=True, timeout=120)
    series = json.loads(done.stdout)
    growth = {name: max(values[WARM_UP:]) - values[WARM_UP] for name, values in series.items()}
    recorder.note(
        "load_rounds",
        rounds=ROUNDS,
        warm_up=WARM_UP,
        seconds=time.monotonic() - start,
        every_tenth={name: values[::10] for name, values in series.items()},
    )
    flat = [
        recorder.check("load_rounds.device_memory_flat", growth["device_bytes"], limit=DEVICE_LIMIT, unit="bytes"),
        recorder.check("load_rounds.rss_flat", growth["resident_bytes"], limit=RESIDENT_LIMIT, unit="bytes"),
    ]
    assert all(flat), growth
