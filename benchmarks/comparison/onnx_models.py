"""Writes the compared models as ONNX for ONNX Runtime: ``python -m comparison.onnx_models FOLDER``.

Needs the packages onnx and onnxscript. No GPU is needed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from gpu.every_tensor.programs import PROGRAMS

MODELS = ("resnet18", "encoder", "encoder_1_16", "encoder_8_256")


def main() -> None:
    """Write one file per model."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        program = PROGRAMS[f"{model}.device"]
        path = folder / f"{model}.onnx"
        torch.onnx.export(program.module(), program.example(), path, dynamo=True, external_data=False)
        print(f"{path.name}: {path.stat().st_size / 2**20:.2f} MiB", flush=True)


if __name__ == "__main__":
    main()
