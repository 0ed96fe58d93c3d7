"""Which engines a lowered program has, and which ones a written file has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeProgramManager
from executorch.exir.lowered_backend_module import LoweredBackendModule

from torch_tensorrt_executorch_runtime._blob import BACKEND_ID, Binding, Profile, TensorRTVersion, unpack_blob
from torch_tensorrt_executorch_runtime._digest import engine_digest
from torch_tensorrt_executorch_runtime.export.report import EngineReport
from torch_tensorrt_executorch_runtime.inspect import BindingInfo, EngineInfo, inspect_program

__all__ = ["WrittenEngines", "engines_of", "read_engines"]


@dataclass(frozen=True)
class WrittenEngines:
    """The engines of a file, the backend names of each method's delegates in order, and its other operators."""

    engines: tuple[EngineReport, ...]
    delegates: dict[str, tuple[str, ...]]
    operators: tuple[str, ...] = ()


def engines_of(manager: EdgeProgramManager) -> dict[str, list[str]]:
    """Return the digest of each TensorRT engine of each method."""
    return {
        name: [_digest(module) for module in _lowered_modules(manager.exported_program(name).graph_module)]
        for name in sorted(manager.methods)
    }


def read_engines(path: Path) -> WrittenEngines:
    """Read the engines of a ``.pte`` file and check their digests.

    Raises:
        ProgramError: The file is not a complete program.
        BlobError: An engine is damaged.
    """
    engines = []
    delegates = {}
    operators: set[str] = set()
    for method in inspect_program(path).methods:
        delegates[method.name] = tuple(delegate.backend for delegate in method.delegates)
        engines += [_engine(method.name, index, engine) for index, engine in enumerate(method.engines)]
        operators.update(operator.name for operator in method.operators)
    return WrittenEngines(tuple(engines), delegates, tuple(sorted(operators)))


def _lowered_modules(module: torch.fx.GraphModule) -> Iterator[LoweredBackendModule]:
    # Not by modules(): the parent of a delegate inside a branch is a graph module too, but a delegate's own original
    # graph must not be entered.
    for child in module.children():
        if isinstance(child, LoweredBackendModule):
            if child.backend_id == BACKEND_ID:
                yield child
        elif isinstance(child, torch.fx.GraphModule):
            yield from _lowered_modules(child)


def _digest(module: Any) -> str:
    return engine_digest(unpack_blob(module.processed_bytes).engine)


def _engine(method: str, index: int, engine: EngineInfo) -> EngineReport:
    return EngineReport(
        method=method,
        index=index,
        bindings=tuple(map(_binding, engine.bindings)),
        size_bytes=engine.size_bytes,
        sha256=engine.sha256,
        tensorrt=None if engine.version is None else TensorRTVersion(engine.flavor, engine.version),
        compute_capabilities=engine.compute_capabilities,
        layers=engine.layers,
        build_seconds=engine.build_seconds,
        kernels=engine.kernels,
    )


def _binding(info: BindingInfo) -> Binding:
    profile = None if info.profile is None else Profile(**info.profile)
    return Binding(info.name, info.is_input, info.dtype, info.shape, profile)
