"""What an export did: its engines, what stayed outside and why, and the files it wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from torch_tensorrt_executorch_runtime._blob import Binding, TensorRTVersion
from torch_tensorrt_executorch_runtime.export._operator_support import operator_name
from torch_tensorrt_executorch_runtime.inspect import KernelInfo

__all__ = ["EngineReport", "ExportReport", "OutsideOperator", "WrittenFile", "outside_operators"]


@dataclass(frozen=True)
class OutsideOperator:
    """Calls of one operator that TensorRT does not run, and why."""

    op: str
    count: int
    reason: str
    method: str = "forward"

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as it stands in the program's ``partition_report``."""
        return {"op": self.op, "count": self.count, "reason": self.reason}


@dataclass(frozen=True)
class EngineReport:
    """One engine of the program.

    ``layers`` and ``build_seconds`` are None for an engine that was compiled before the export. ``kernels`` are those
    that the file carries for it.
    """

    method: str
    index: int
    bindings: tuple[Binding, ...]
    size_bytes: int
    sha256: str
    tensorrt: TensorRTVersion | None
    compute_capabilities: tuple[str, ...] | None
    layers: int | None
    build_seconds: float | None
    kernels: tuple[KernelInfo, ...] = ()


@dataclass(frozen=True)
class WrittenFile:
    """A file that the export wrote."""

    path: Path
    size_bytes: int


@dataclass(frozen=True)
class ExportReport:
    """The result of :func:`save`. ``str()`` gives it as text, :meth:`to_dict` as JSON values."""

    methods: tuple[str, ...]
    engines: tuple[EngineReport, ...]
    outside: tuple[OutsideOperator, ...]
    files: tuple[WrittenFile, ...]
    delegates: dict[str, tuple[str, ...]]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values that ``json.dumps`` takes."""
        document = asdict(self)
        document["files"] = [{"path": str(file.path), "size_bytes": file.size_bytes} for file in self.files]
        return document

    def __str__(self) -> str:
        lines = [f"{file.path}: {_size(file.size_bytes)}" for file in self.files]
        for method in self.methods:
            lines.append(f"method {method}: delegates {list(self.delegates.get(method, ()))}")
            lines += [_engine_line(engine) for engine in self.engines if engine.method == method]
            lines += [f"  outside: {_outside_line(entry)}" for entry in self.outside if entry.method == method]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)


def outside_operators(nodes: Iterable[tuple[torch.fx.Node, str]]) -> tuple[OutsideOperator, ...]:
    """Count the operators of ``nodes`` by name and reason, the most frequent first."""
    counts = Counter((operator_name(node.target), reason) for node, reason in nodes)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(OutsideOperator(op, count, reason) for (op, reason), count in ordered)


def _engine_line(engine: EngineReport) -> str:
    facts = [_size(engine.size_bytes)]
    if engine.layers is not None:
        facts.insert(0, f"{engine.layers} layers")
    if engine.build_seconds is not None:
        facts.append(f"built in {engine.build_seconds:.2f} s")
    facts += [f"compiled kernels for {kernels.gpu} ({_size(kernels.size_bytes)})" for kernels in engine.kernels]
    inputs = ", ".join(_binding(binding) for binding in engine.bindings if binding.is_input)
    outputs = ", ".join(_binding(binding) for binding in engine.bindings if not binding.is_input)
    return f"  engine {engine.index}: {', '.join(facts)}; {inputs} -> {outputs}"


def _binding(binding: Binding) -> str:
    if not binding.dtype:
        return binding.name
    return f"{binding.name} {binding.dtype}{_shape(binding)}"


def _shape(binding: Binding) -> str:
    sizes: Sequence[str] = [str(size) for size in binding.shape]
    if binding.profile is not None:
        sizes = [
            size if size != "-1" else f"{low}..{high}"
            for size, low, high in zip(sizes, binding.profile.min, binding.profile.max, strict=True)
        ]
    return f"[{', '.join(sizes)}]"


def _outside_line(entry: OutsideOperator) -> str:
    return f"{entry.op} x{entry.count}: {entry.reason}"


def _size(size_bytes: int) -> str:
    if size_bytes >= 1_000_000:
        return f"{size_bytes / 1_000_000:.1f} MB"
    return f"{size_bytes / 1_000:.1f} kB"
