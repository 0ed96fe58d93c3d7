"""Imports ExecuTorch's exporter, without the warnings of a package that comes with it about its own future."""

from __future__ import annotations

import importlib

from torch_tensorrt_executorch_runtime.export._torch_tensorrt import quiet

__all__ = ["exir"]

with quiet("torch.utils._pytree"):
    exir = importlib.import_module("executorch.exir")
