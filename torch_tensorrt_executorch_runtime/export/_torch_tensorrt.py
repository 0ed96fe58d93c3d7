"""Import Torch-TensorRT, also on a machine without an NVIDIA driver."""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

__all__ = ["INSTALL_COMMAND", "load_torch_tensorrt", "quiet", "tensorrt", "tensorrt_version", "uses_tensorrt_rtx"]

INSTALL_COMMAND = 'pip install "torch-tensorrt-executorch-runtime[export]"'
_LOCK = threading.Lock()

# What an Ampere GPU would answer. Torch-TensorRT asks only to fill in defaults that this package never uses.
_ANSWERS: dict[str, Any] = {"get_device_capability": (8, 0), "current_device": 0}


def load_torch_tensorrt() -> ModuleType:
    """Return the ``torch_tensorrt`` package; importing it needs no driver here.

    Torch-TensorRT asks CUDA for the current device while it is imported. Without a driver those two questions
    are answered for it, in this thread's import only, and the real functions are put back before this returns.

    Raises:
        ImportError: Torch-TensorRT is missing or does not load; the text holds the command that installs it.
    """
    with _LOCK:
        loaded = sys.modules.get("torch_tensorrt")
        if loaded is not None:
            return loaded
        try:
            # The import warns about its own deprecations, and about quantization tools that are not used here.
            with _cuda_answers(), quiet("torch", "torch_tensorrt"):
                return importlib.import_module("torch_tensorrt")
        except ModuleNotFoundError as error:
            raise ImportError(
                f"The module {error.name!r} is missing, which exporting with TensorRT needs. Run: {INSTALL_COMMAND}",
                name=error.name,
            ) from error


def tensorrt() -> Any:
    """Return the TensorRT bindings that Torch-TensorRT builds with (TensorRT-RTX or TensorRT)."""
    load_torch_tensorrt()
    return importlib.import_module("tensorrt")


def uses_tensorrt_rtx() -> bool:
    """Say whether the installed Torch-TensorRT builds TensorRT-RTX engines."""
    load_torch_tensorrt()
    features = importlib.import_module("torch_tensorrt._features")
    return bool(features.ENABLED_FEATURES.tensorrt_rtx)


def tensorrt_version() -> str:
    """Return the version of the TensorRT that builds the engines."""
    return str(tensorrt().__version__)


@contextlib.contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Let these loggers report errors only."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _cuda_answers() -> Iterator[None]:
    if torch.cuda.is_available():
        yield
        return
    real = {name: getattr(torch.cuda, name) for name in _ANSWERS}
    for name, answer in _ANSWERS.items():
        setattr(torch.cuda, name, lambda *_args, _answer=answer, **_kwargs: _answer)
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(torch.cuda, name, function)
