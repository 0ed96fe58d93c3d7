"""What the commands that run a program share: finding a method and loading it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._errors import DelegateError
from torch_tensorrt_executorch_runtime.inspect import MethodInfo, ProgramInfo

__all__ = ["find_method", "first_line", "load_method"]


def find_method(program: ProgramInfo, name: str) -> MethodInfo:
    """Return a method by its name.

    Raises:
        DelegateError: There is none; the text lists all.
    """
    for method in program.methods:
        if method.name == name:
            return method
    known = ", ".join(method.name for method in program.methods)
    raise DelegateError(f"{program.path} has no method {name!r}. It has: {known}.")


def load_method(file: Path, method: str, data: Path | None) -> Any:
    """Load a method with ExecuTorch.

    Args:
        file: The program.
        method: Name of the method.
        data: The ``.ptd`` file that belongs to the program.

    Raises:
        DelegateError: It cannot be loaded.
    """
    _loader.native()
    from executorch.runtime import Runtime  # noqa: PLC0415 - imports torch

    try:
        return Runtime.get().load_program(file, data_path=data).load_method(method)
    except RuntimeError as error:
        raise DelegateError(
            f"{file} cannot be loaded: {first_line(error)}. The log above has the cause; "
            f"`trt-executorch check {file}` compares the file with this machine."
        ) from error


def first_line(error: RuntimeError) -> str:
    """Return the first line of an error's text without a full stop; ExecuTorch adds a trace below it."""
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
