"""Makes ExecuTorch reach this package's backend class, whatever else is called like it.

ExecuTorch looks a backend up by class name among the direct subclasses of ``BackendDetails``; depending on the entry
point the first or the last of that name wins. ``torch_tensorrt.executorch`` has a class of the same name, because
both write programs for the same delegate. Its functions are therefore given guards that hand the partitions of
our partitioner to our class, and leave all others to it.
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

_LOCK = threading.Lock()
_ORIGINALS: dict[type, dict[str, Any]] = {}


def prefer_own_backend() -> None:
    """Guard every other class of our backend's name. Doing it again changes nothing."""
    with _LOCK:
        for cls in BackendDetails.__subclasses__():
            if cls.__name__ == BACKEND_ID and cls is not TensorRTBackend and cls not in _ORIGINALS:
                guards = _guards(cls)
                _ORIGINALS[cls] = {name: cls.__dict__.get(name) for name in guards}
                for name, guard in guards.items():
                    setattr(cls, name, staticmethod(guard))


def restore_other_backend() -> None:
    """Take back what :func:`prefer_own_backend` did."""
    with _LOCK:
        while _ORIGINALS:
            cls, originals = _ORIGINALS.popitem()
            for name, original in originals.items():
                if original is None:
                    delattr(cls, name)
                else:
                    setattr(cls, name, original)


def _guards(cls: type[BackendDetails]) -> dict[str, Callable[..., Any]]:
    other = {
        name: getattr(cls, name)
        for name in ("preprocess", "preprocess_multimethod", "copy_exported_program_for_preprocess")
    }

    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        chosen = TensorRTBackend.preprocess if _is_ours(edge_program) else other["preprocess"]
        return chosen(edge_program, compile_specs)

    def preprocess_multimethod(
        edge_programs: dict[str, list[ExportedProgram]], compile_specs: dict[str, list[list[CompileSpec]]]
    ) -> dict[str, list[PreprocessResult]]:
        ours = all(_is_ours(program) for programs in edge_programs.values() for program in programs)
        chosen = TensorRTBackend.preprocess_multimethod if ours else other["preprocess_multimethod"]
        return chosen(edge_programs, compile_specs)

    def copy_exported_program_for_preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        if _is_ours(edge_program):
            return TensorRTBackend.copy_exported_program_for_preprocess(edge_program, compile_specs)
        copied: ExportedProgram = other["copy_exported_program_for_preprocess"](edge_program, compile_specs)
        return copied

    return {
        function.__name__: function
        for function in (preprocess, preprocess_multimethod, copy_exported_program_for_preprocess)
    }


def _is_ours(program: ExportedProgram) -> bool:
    return any(RANGES_META in node.meta for node in program.graph.nodes)
