"""What is in a ``.pte`` file, as plain data: no GPU, no torch, no TensorRT, and the engines are not loaded."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_tensorrt_executorch_runtime import _program
from torch_tensorrt_executorch_runtime._blob import BACKEND_ID, Blob, unpack_blob
from torch_tensorrt_executorch_runtime._digest import engine_digest
from torch_tensorrt_executorch_runtime._errors import BlobError, ProgramError
from torch_tensorrt_executorch_runtime._kernel_data import are_whole, parse_key

__all__ = [
    "AliasInfo",
    "BindingInfo",
    "DelegateInfo",
    "EngineInfo",
    "KernelInfo",
    "MemoryInfo",
    "MethodInfo",
    "OperatorInfo",
    "OutsideInfo",
    "ProgramInfo",
    "SegmentInfo",
    "ValueInfo",
    "inspect_program",
]

_REPORT_KEY = "partition_report"
_ENGINE_MAGIC = {b"vtrt": "rtx", b"ftrt": "tensorrt"}
_LONGEST_SPEC = 200
_Kernels = Mapping[str, Sequence["KernelInfo"]]  # by the digest of the engine


@dataclass(frozen=True)
class BindingInfo:
    """One tensor of an engine; ``profile`` has the shapes ``min``, ``opt`` and ``max`` of a dynamic input."""

    name: str
    is_input: bool
    dtype: str
    shape: tuple[int, ...]
    profile: dict[str, tuple[int, ...]] | None


@dataclass(frozen=True)
class AliasInfo:
    """An output of an engine that is written into the memory of an input."""

    output: str
    input: str
    kind: str


@dataclass(frozen=True)
class KernelInfo:
    """Compiled kernels of an engine that the file carries, for one version of TensorRT-RTX and one GPU model.

    ``whole`` is false when their digest says that they are damaged; then they are compiled at load.
    """

    version: str
    gpu: str
    size_bytes: int
    whole: bool


@dataclass(frozen=True)
class EngineInfo:
    """A serialized TensorRT engine.

    Attributes:
        flavor: ``rtx`` for TensorRT-RTX, ``tensorrt`` for TensorRT, ``unknown``: told by the first bytes.
        version: Version of the TensorRT that built it, None when the file does not record it.
        sha256: Digest of the engine's bytes. It was compared when ``sha256_recorded`` is true.
        compute_capabilities: GPUs that it was built for; empty for all that TensorRT supports, None when not recorded.
        bindings: All inputs in the order of the delegate's arguments, then all outputs.
        kernels: What TensorRT-RTX compiled for it, in the file.
    """

    flavor: str
    version: str | None
    size_bytes: int
    sha256: str
    sha256_recorded: bool
    layers: int | None
    build_seconds: float | None
    compute_capabilities: tuple[str, ...] | None
    hardware_compatible: bool
    device_id: int
    target_platform: str
    bindings: tuple[BindingInfo, ...]
    aliases: tuple[AliasInfo, ...]
    kernels: tuple[KernelInfo, ...] = ()


@dataclass(frozen=True)
class DelegateInfo:
    """A part of a method that a backend runs. ``engine`` is None for backends other than ours."""

    backend: str
    size_bytes: int
    calls: int
    compile_specs: dict[str, str]
    engine: EngineInfo | None


@dataclass(frozen=True)
class OperatorInfo:
    """An operator that ExecuTorch itself runs, and how many calls of it the method makes."""

    name: str
    calls: int


@dataclass(frozen=True)
class OutsideInfo:
    """An operator that the export left outside of every engine, and why."""

    operator: str
    count: int
    reason: str


@dataclass(frozen=True)
class ValueInfo:
    """An input or output of a method. A dynamic tensor shows its largest shape.

    ``device`` is where the program expects the tensor's memory: ``cpu``, or such as ``cuda:0``.
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]
    dynamic: bool
    device: str = "cpu"


@dataclass(frozen=True)
class MemoryInfo:
    """A buffer that ExecuTorch plans for the method's tensors."""

    device: str
    size_bytes: int


@dataclass(frozen=True)
class MethodInfo:
    """One entry point. ``outside`` is None when the file does not record what stayed outside of the engines."""

    name: str
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    delegates: tuple[DelegateInfo, ...]
    operators: tuple[OperatorInfo, ...]
    outside: tuple[OutsideInfo, ...] | None
    memory: tuple[MemoryInfo, ...]

    @property
    def engines(self) -> tuple[EngineInfo, ...]:
        """The TensorRT engines, in the order of the delegates."""
        return tuple(delegate.engine for delegate in self.delegates if delegate.engine is not None)


@dataclass(frozen=True)
class SegmentInfo:
    """A run of bytes in the file and what it holds."""

    offset: int
    size_bytes: int
    holds: str


@dataclass(frozen=True)
class ProgramInfo:
    """A whole file."""

    path: str
    size_bytes: int
    methods: tuple[MethodInfo, ...]
    segments: tuple[SegmentInfo, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        return dataclasses.asdict(self)


def inspect_program(path: str | Path) -> ProgramInfo:
    """Say what is in a ``.pte`` file.

    Args:
        path: The file. It is mapped, not read as a whole, so its size does not matter.

    Returns:
        Methods, their delegates in order, engines with bindings and sizes, operators outside, segments.

    Raises:
        OSError: The file cannot be read.
        ProgramError: The file is no complete ExecuTorch program.
        BlobError: The data of a TensorRT delegate is damaged; the text names method and delegate.

    Example:
        >>> from torch_tensorrt_executorch_runtime.inspect import inspect_program
        >>> inspect_program("model.pte").methods[0].engines[0].layers  # doctest: +SKIP
        62
    """
    data = _program.map_file(Path(path))
    program = _program.read_program(data)
    kernels = _kernels(program, data)
    return ProgramInfo(
        path=str(path),
        size_bytes=len(data),
        methods=tuple(_method(method, kernels) for method in program.methods),
        segments=tuple(_segments(program)),
    )


def _kernels(program: _program.Program, data: memoryview) -> _Kernels:
    found: dict[str, list[KernelInfo]] = {}
    for name, index in program.named_data:
        key = parse_key(name)
        if key is not None and index < len(program.segments):
            segment = program.segments[index]
            content = data[segment.offset : segment.offset + segment.size]
            info = KernelInfo(key.version, key.gpu, len(content), are_whole(content))
            found.setdefault(key.engine_sha256, []).append(info)
    return found


def _method(method: _program.Method, kernels: _Kernels) -> MethodInfo:
    return MethodInfo(
        name=method.name,
        inputs=tuple(_value(value) for value in method.inputs),
        outputs=tuple(_value(value) for value in method.outputs),
        delegates=tuple(
            _delegate(delegate, kernels, f"Method {method.name!r}, delegate {index}")
            for index, delegate in enumerate(method.delegates)
        ),
        operators=tuple(OperatorInfo(name, calls) for name, calls in method.operators),
        outside=_outside(method),
        memory=tuple(MemoryInfo(device, size) for device, size in method.memory),
    )


def _value(value: _program.Tensor) -> ValueInfo:
    return ValueInfo(value.kind, value.dtype, value.shape, value.dynamic, value.device)


def _delegate(delegate: _program.Delegate, kernels: _Kernels, where: str) -> DelegateInfo:
    engine = None
    if delegate.backend == BACKEND_ID:
        try:
            engine = _engine(unpack_blob(delegate.data), kernels)
        except BlobError as error:
            raise BlobError(f"{where}: {error}") from error
    specs = {key: _printable(value) for key, value in delegate.compile_specs if key != _REPORT_KEY}
    return DelegateInfo(delegate.backend, len(delegate.data), delegate.calls, specs, engine)


def _engine(blob: Blob, kernels: _Kernels) -> EngineInfo:
    metadata = blob.metadata
    sha256 = metadata.engine_sha256 or engine_digest(blob.engine)
    return EngineInfo(
        flavor=_ENGINE_MAGIC.get(bytes(blob.engine[:4]), "unknown"),
        version=metadata.tensorrt.version if metadata.tensorrt else None,
        size_bytes=len(blob.engine),
        sha256=sha256,
        sha256_recorded=metadata.engine_sha256 is not None,
        layers=metadata.layers,
        build_seconds=metadata.build_seconds,
        compute_capabilities=metadata.compute_capabilities,
        hardware_compatible=metadata.hardware_compatible,
        device_id=metadata.device_id,
        target_platform=metadata.target_platform,
        bindings=tuple(
            BindingInfo(item.name, item.is_input, item.dtype, item.shape, dataclasses.asdict(item.profile))
            if item.profile
            else BindingInfo(item.name, item.is_input, item.dtype, item.shape, None)
            for item in metadata.bindings
        ),
        aliases=tuple(AliasInfo(item.output, item.input, item.kind) for item in metadata.aliases),
        kernels=tuple(kernels.get(sha256, ())),
    )


def _printable(value: bytes) -> str:
    """Show a compile spec as text when it is some, else as hexadecimal digits, and not without end."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or (value and not text):
        text = f"0x{value[: _LONGEST_SPEC // 2].hex()}"
    return text if len(text) <= _LONGEST_SPEC else f"{text[:_LONGEST_SPEC]}... ({len(value)} bytes)"


def _outside(method: _program.Method) -> tuple[OutsideInfo, ...] | None:
    for delegate in method.delegates:
        for key, value in delegate.compile_specs:
            if delegate.backend == BACKEND_ID and key == _REPORT_KEY:
                return _read_report(value, method.name)
    return None


def _read_report(value: bytes, method: str) -> tuple[OutsideInfo, ...]:
    try:
        return tuple(
            OutsideInfo(str(item["op"]), int(item["count"]), str(item["reason"]))
            for item in json.loads(value)["outside"]
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProgramError(
            f"Method {method!r}: its report of what stayed outside of the engines is unreadable ({error!r}): "
            "the file is damaged. Copy or export it again."
        ) from error


def _segments(program: _program.Program) -> Iterator[SegmentInfo]:
    holds: dict[int, list[str]] = {}
    for method in program.methods:
        for number, delegate in enumerate(method.delegates):
            if delegate.segment is not None:
                holds.setdefault(delegate.segment, []).append(f"{method.name}: delegate {number} ({delegate.backend})")
    if program.constant_segment is not None:
        holds.setdefault(program.constant_segment, []).append("constants")
    for index in program.mutable_segments:
        holds.setdefault(index, []).append("initial values of mutable buffers")
    for key, index in program.named_data:
        holds.setdefault(index, []).append(f"named data {key}")
    for segment in program.segments:
        yield SegmentInfo(segment.offset, segment.size, ", ".join(holds.get(segment.index, ["nothing that is used"])))
