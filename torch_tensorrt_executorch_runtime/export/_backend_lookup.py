"""Makes ExecuTorch find this package's backend class, whatever else is called like it.

ExecuTorch looks a backend up by class name among the direct subclasses of ``BackendDetails`` and takes the first.
``torch_tensorrt.executorch`` has a class of the same name, because both write programs for the same delegate. When
it was imported first, its class would be asked to preprocess partitions that hold operators instead of an engine,
which it cannot do. So its ``preprocess`` is then given a guard that hands exactly these partitions to ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime._blob import BACKEND_ID
from torch_tensorrt_executorch_runtime.export._operator_support import is_engine_call
from torch_tensorrt_executorch_runtime.export.preprocess import TensorRTBackend

__all__ = ["prefer_own_backend", "restore_other_backend"]

_Preprocess = Callable[[ExportedProgram, list[CompileSpec]], PreprocessResult]
_LOCK = threading.Lock()
_GUARDED: dict[type, Any] = {}


def prefer_own_backend() -> None:
    """Make the backend lookup end at a class that can build engines. Doing it again changes nothing."""
    with _LOCK:
        first = next(cls for cls in BackendDetails.__subclasses__() if cls.__name__ == BACKEND_ID)
        if first is TensorRTBackend or first in _GUARDED:
            return
        _GUARDED[first] = first.__dict__["preprocess"]
        first.preprocess = staticmethod(_guard(first.preprocess))


def restore_other_backend() -> None:
    """Take back what :func:`prefer_own_backend` did."""
    with _LOCK:
        while _GUARDED:
            cls, original = _GUARDED.popitem()
            cls.preprocess = original  # type: ignore[attr-defined]


def _guard(other: _Preprocess) -> _Preprocess:
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        if any(is_engine_call(node) for node in edge_program.graph.nodes):
            return other(edge_program, compile_specs)
        return TensorRTBackend.preprocess(edge_program, compile_specs)

    return preprocess
