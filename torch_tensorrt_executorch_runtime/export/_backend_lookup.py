"""Makes ExecuTorch reach this package's backend class, whatever else is called like it.

ExecuTorch looks a backend up by class name among the direct subclasses of ``BackendDetails``; depending on the entry
point the first or the last of that name wins. ``torch_tensorrt.executorch`` has a class of the same name, because
both write programs for the same delegate. Its ``preprocess`` is therefore given a guard that hands partitions of our
partitioner to our class, and leaves all others to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime._blob import BACKEND_ID
from torch_tensorrt_executorch_runtime.export._profiles import RANGES_META
from torch_tensorrt_executorch_runtime.export.preprocess import TensorRTBackend

__all__ = ["prefer_own_backend", "restore_other_backend"]

_Preprocess = Callable[[ExportedProgram, list[CompileSpec]], PreprocessResult]
_LOCK = threading.Lock()
_GUARDED: dict[type, Any] = {}


def prefer_own_backend() -> None:
    """Guard every other class of our backend's name. Doing it again changes nothing."""
    with _LOCK:
        for cls in BackendDetails.__subclasses__():
            if cls.__name__ == BACKEND_ID and cls is not TensorRTBackend and cls not in _GUARDED:
                _GUARDED[cls] = cls.__dict__["preprocess"]
                cls.preprocess = staticmethod(_guard(cls.preprocess))


def restore_other_backend() -> None:
    """Take back what :func:`prefer_own_backend` did."""
    with _LOCK:
        while _GUARDED:
            cls, original = _GUARDED.popitem()
            cls.preprocess = original  # type: ignore[attr-defined]


def _guard(other: _Preprocess) -> _Preprocess:
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        ours = any(RANGES_META in node.meta for node in edge_program.graph.nodes)
        return (TensorRTBackend.preprocess if ours else other)(edge_program, compile_specs)

    return preprocess
