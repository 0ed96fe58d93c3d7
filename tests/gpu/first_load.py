"""Loads a program in a process of its own and says how long that took: what a machine does with a file it never saw.

python first_load.py warm_up.pte model.pte OUTPUTS.pt < inputs.pt

The first program opens CUDA and TensorRT, so that the time of the second is its engines' alone.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from pathlib import Path

import torch
from executorch.runtime import Runtime

import torch_tensorrt_executorch_runtime  # noqa: F401  registers the delegate


def main() -> None:
    warm_up, model, outputs = sys.argv[1:]
    inputs = torch.load(io.BytesIO(sys.stdin.buffer.read()), weights_only=True)
    first = Runtime.get().load_program(warm_up)
    first.load_method("forward")
    cache = Path(os.environ["TENSORRT_EXECUTORCH_CACHE"])
    before = len(list(cache.glob("*")))
    start = time.perf_counter()
    program = Runtime.get().load_program(model)
    method = program.load_method("forward")
    seconds = time.perf_counter() - start
    kept = len(list(cache.glob("*"))) - before
    torch.save(list(method.execute(inputs)), outputs)
    print(json.dumps({"seconds": seconds, "kept": kept}))


if __name__ == "__main__":
    main()
