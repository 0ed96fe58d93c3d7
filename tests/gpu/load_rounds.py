"""Loads, runs and destroys a program again and again; prints device memory and RSS after every round as JSON.

python load_rounds.py model.pte ROUNDS libtest_kernels.so < inputs.pt
"""

from __future__ import annotations

import ctypes
import gc
import io
import json
import sys
from pathlib import Path

import torch
from executorch.runtime import Runtime

import torch_tensorrt_executorch_runtime  # noqa: F401  registers the delegate


def resident_bytes() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def device_bytes() -> int:
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def one_round(path: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    program = Runtime.get().load_program(path)
    return list(program.load_method("forward").execute(inputs))


def main() -> None:
    path, rounds = sys.argv[1], int(sys.argv[2])
    ctypes.CDLL(sys.argv[3])
    inputs = torch.load(io.BytesIO(sys.stdin.buffer.read()), weights_only=True)
    device, resident = [], []
    first = one_round(path, inputs)
    for _ in range(rounds):
        outputs = one_round(path, inputs)
        equal = all(torch.equal(a, b) for a, b in zip(outputs, first, strict=True))
        assert equal, "a round gave another result"
        gc.collect()
        device.append(device_bytes())
        resident.append(resident_bytes())
    print(json.dumps({"device_bytes": device, "resident_bytes": resident}))


if __name__ == "__main__":
    main()
