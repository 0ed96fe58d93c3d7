"""The options of an export, and how they travel from the partitioner to the engine builder."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec

from torch_tensorrt_executorch_runtime._errors import ExportError, kind_of

__all__ = [
    "BUDGET_SPEC",
    "CUDA_GRAPHS_SPEC",
    "OPTIONS_SPEC",
    "REPORT_SPEC",
    "SCRATCH_SPEC",
    "STREAM_ORDER_SPEC",
    "TARGET_DEVICE_SPEC",
    "BuildOptions",
    "delegate_specs",
    "device_index",
    "device_index_of",
    "normalize_capabilities",
]

BUDGET_SPEC = "weight_streaming_budget"
CUDA_GRAPHS_SPEC = "use_cuda_graphs"
OPTIONS_SPEC = "tensorrt_build_options"
REPORT_SPEC = "partition_report"
SCRATCH_SPEC = "use_shared_activation_scratch"
STREAM_ORDER_SPEC = "results_in_stream_order"
TARGET_DEVICE_SPEC = "target_device"

_BUDGET_LIMIT = 2**63
_MAX_DEVICE = 127


@dataclass(frozen=True)
class BuildOptions:
    """How TensorRT builds an engine. The names and meanings are those of ``torch_tensorrt.dynamo.compile``.

    Attributes:
        compute_capabilities: GPUs to build for, such as ``("8.6", "8.9")``; empty: every GPU that TensorRT supports.
        workspace_size: Bytes of scratch memory that a layer may use; 0: no limit.
        optimization_level: 0 to 5; None: TensorRT's default.
        max_aux_streams: Extra streams that the engine may use; None: TensorRT's choice.
        use_fp32_acc: Accumulate half precision matrix products in float32.
        decompose_attention: Build attention out of small operators.
        disable_tf32: Do not round float32 products to TF32. TensorRT-RTX would do so all the same, so each product is
            built from parts that TF32 holds: about three times the arithmetic and twice the memory of the weights.
        enable_weight_streaming: Let the weights live in host memory (see ``weight_streaming_budget_per_engine``).
        embed_runtime_cache: Compile the engine's kernels for this machine's GPU, and let the program carry them.
    """

    compute_capabilities: tuple[str, ...] = ()
    workspace_size: int = 0
    optimization_level: int | None = None
    max_aux_streams: int | None = None
    use_fp32_acc: bool = False
    decompose_attention: bool = False
    disable_tf32: bool = False
    enable_weight_streaming: bool = False
    embed_runtime_cache: bool = False

    def specs(self) -> list[CompileSpec]:
        """Return the compile spec that carries these options, or nothing when all are at their defaults."""
        changed = {key: value for key, value in asdict(self).items() if value != getattr(BuildOptions(), key)}
        if not changed:
            return []
        return [CompileSpec(OPTIONS_SPEC, json.dumps(changed, separators=(",", ":")).encode("ascii"))]

    @classmethod
    def from_specs(cls, specs: Iterable[CompileSpec]) -> BuildOptions:
        """Read the options that :meth:`specs` wrote."""
        for spec in specs:
            if spec.key == OPTIONS_SPEC:
                values: dict[str, Any] = json.loads(spec.value)
                values["compute_capabilities"] = tuple(values.get("compute_capabilities", ()))
                return cls(**values)
        return cls()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all options."""
        return tuple(field.name for field in fields(cls))


def normalize_capabilities(value: str | Collection[str | tuple[int, int]] | None) -> tuple[str, ...]:
    """Write compute capabilities as ``major.minor``, sorted and each once.

    Args:
        value: ``"8.6"``, ``"sm86"``, ``(8, 6)`` or several of them; None: every GPU.

    Raises:
        ExportError: An entry is none of these forms.
    """
    if value is None:
        return ()
    entries: Collection[Any] = [value] if isinstance(value, str) else value
    return tuple(sorted({_capability(entry) for entry in entries}, key=lambda text: tuple(map(int, text.split(".")))))


def _capability(entry: Any) -> str:
    if isinstance(entry, tuple) and len(entry) == 2:
        return f"{int(entry[0])}.{int(entry[1])}"
    match = re.fullmatch(r"(?:sm_?)?(\d+)\.?(\d)", str(entry).lower())
    if match is None:
        raise ExportError(
            f'compute_capabilities holds {entry!r}, but "8.6", "sm86" or (8, 6) is expected. '
            "Leave compute_capabilities out to build for every GPU."
        )
    return f"{match[1]}.{match[2]}"


def device_index(device: str | int | torch.device | None) -> int:
    """Return the CUDA ordinal that ``device`` names.

    Args:
        device: ``"cuda"``, ``"cuda:1"``, ``torch.device("cuda:1")`` or ``1``; None: 0.

    Raises:
        ExportError: It is no CUDA device, or its ordinal is not in 0..127.
    """
    if device is None:
        return 0
    try:
        parsed = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ExportError(f"device is {device!r}, but a CUDA device such as 'cuda:0' is expected.") from error
    index = parsed.index or 0
    if parsed.type != "cuda" or not 0 <= index <= _MAX_DEVICE:
        raise ExportError(f"device is {device!r}, but 'cuda:0' to 'cuda:{_MAX_DEVICE}' is expected.")
    return index


def device_index_of(specs: Iterable[CompileSpec]) -> int:
    """Return the CUDA ordinal in the ``target_device`` spec, 0 without one."""
    for spec in specs:
        if spec.key == TARGET_DEVICE_SPEC:
            return device_index(bytes(spec.value).decode("ascii", errors="replace").strip().lower())
    return 0


def delegate_specs(
    *,
    device: str | int | torch.device | None,
    weight_streaming_budget_per_engine: int | None,
    use_cuda_graphs: bool | None,
    use_shared_activation_scratch: bool | None,
    compile_specs: Sequence[CompileSpec],
) -> list[CompileSpec]:
    """Join the caller's compile specs with those that the other options stand for.

    Raises:
        ExportError: A spec and an option contradict each other, or a spec repeats what an option is for.
        TypeError: An option has the wrong type.
        ValueError: The budget is out of range.
    """
    _refuse_handwritten(compile_specs)
    specs = list(compile_specs)
    if weight_streaming_budget_per_engine is not None:
        specs.append(CompileSpec(BUDGET_SPEC, _budget(weight_streaming_budget_per_engine)))
    specs += _switch(CUDA_GRAPHS_SPEC, use_cuda_graphs)
    specs += _switch(SCRATCH_SPEC, use_shared_activation_scratch)
    named = [spec for spec in specs if spec.key == TARGET_DEVICE_SPEC]
    if not named:
        specs.append(CompileSpec(TARGET_DEVICE_SPEC, f"cuda:{device_index(device)}".encode("ascii")))
    elif device is not None and device_index_of(named) != device_index(device):
        raise ExportError(
            f"device is {device!r}, but compile_specs has target_device={bytes(named[0].value).decode()!r}. "
            "Pass one of the two."
        )
    return specs


def _refuse_handwritten(specs: Sequence[CompileSpec]) -> None:
    options: Mapping[str, str] = {
        BUDGET_SPEC: "weight_streaming_budget_per_engine",
        CUDA_GRAPHS_SPEC: CUDA_GRAPHS_SPEC,
        SCRATCH_SPEC: SCRATCH_SPEC,
    }
    seen: set[str] = set()
    for spec in specs:
        if not isinstance(spec, CompileSpec):
            raise TypeError(f"compile_specs holds {kind_of(spec)}, but CompileSpec objects are expected.")
        if spec.key in options:
            raise ValueError(f"compile_specs holds {spec.key!r}. Pass {options[spec.key]}= instead.")
        if spec.key in (OPTIONS_SPEC, REPORT_SPEC):
            raise ValueError(f"compile_specs holds {spec.key!r}, which the exporter writes itself. Leave it out.")
        if spec.key == TARGET_DEVICE_SPEC and spec.key in seen:
            raise ValueError("compile_specs holds two target_device entries. Keep one.")
        seen.add(spec.key)


def _switch(name: str, value: Any) -> list[CompileSpec]:
    """Return the spec of a switch, which has the option's name; nothing when the option was not given."""
    if value is None:
        return []
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, but True, False or None is expected.")
    return [CompileSpec(name, b"1" if value else b"0")]


def _budget(value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"weight_streaming_budget_per_engine is {value!r}, but a number of bytes (int) or None for TensorRT's "
            "automatic budget is expected."
        )
    if not 0 <= value < _BUDGET_LIMIT:
        raise ValueError(f"weight_streaming_budget_per_engine is {value}, but 0 <= budget < 2**63 bytes is expected.")
    return str(value).encode("ascii")
