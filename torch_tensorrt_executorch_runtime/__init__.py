"""TensorRT delegate for ExecuTorch.

Importing this package registers the backend ``TensorRTBackend`` with the installed ExecuTorch, or raises
``DelegateCompatibilityError`` with the cause and the cure. After that, ``executorch.runtime`` loads and runs programs
that hold TensorRT engines. ``torch_tensorrt_executorch_runtime.export`` writes such programs.

Neither torch nor ExecuTorch's Python code is imported here. With ``TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION=1``
nothing is loaded at all, and only the paths, the inspection and the export can be used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._deprecated import activate, get_runtime
from torch_tensorrt_executorch_runtime._errors import (
    BlobError,
    DelegateCompatibilityError,
    DelegateError,
    ExportError,
    NotRegisteredError,
    OptionError,
    ProgramError,
    UnsupportedSourceError,
)
from torch_tensorrt_executorch_runtime._info import delegate_info
from torch_tensorrt_executorch_runtime._options import get_option, set_option
from torch_tensorrt_executorch_runtime._paths import cmake_prefix_path, include_path, library_path
from torch_tensorrt_executorch_runtime._stats import EngineStats, stats
from torch_tensorrt_executorch_runtime._streams import caller_stream
from torch_tensorrt_executorch_runtime._version import __version__

if TYPE_CHECKING:
    from torch_tensorrt_executorch_runtime import export, inspect

__all__ = [
    "BlobError",
    "DelegateCompatibilityError",
    "DelegateError",
    "EngineStats",
    "ExportError",
    "NotRegisteredError",
    "OptionError",
    "ProgramError",
    "UnsupportedSourceError",
    "__version__",
    "activate",
    "caller_stream",
    "cmake_prefix_path",
    "delegate_info",
    "export",
    "get_option",
    "get_runtime",
    "include_path",
    "inspect",
    "library_path",
    "set_option",
    "stats",
]

_LAZY = ("export", "inspect")  # imported when first used: `export` brings torch


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not _loader.skipped() and not _loader.runs_as_command():
    _loader.register()
