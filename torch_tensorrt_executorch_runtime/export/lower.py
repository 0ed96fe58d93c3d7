"""From a model to an ``EdgeProgramManager`` whose TensorRT parts are engines."""

from __future__ import annotations

import copy
import logging
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner

from torch_tensorrt_executorch_runtime._errors import ExportError, kind_of
from torch_tensorrt_executorch_runtime.export import _progress
from torch_tensorrt_executorch_runtime.export._keywords import LowerKeywords, check_keywords
from torch_tensorrt_executorch_runtime.export._operator_support import ConversionError
from torch_tensorrt_executorch_runtime.export._options import BuildOptions
from torch_tensorrt_executorch_runtime.export._sizes import has_dynamic_sizes, localize_sizes
from torch_tensorrt_executorch_runtime.export._sources import Method, methods_of
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt
from torch_tensorrt_executorch_runtime.export.partitioner import TensorRTPartitioner
from torch_tensorrt_executorch_runtime.export.report import OutsideOperator

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Lowered", "lower", "lower_methods"]

_LOGGER = logging.getLogger("torch_tensorrt_executorch_runtime.export")

_SOURCE_KEYWORDS = (
    "inputs",
    "arg_inputs",
    "kwarg_inputs",
    "dynamic_shapes",
    "retrace",
    "use_legacy_exporter",
)
_PARTITIONER_KEYWORDS = (
    "device",
    "torch_executed_ops",
    "min_block_size",
    "compute_capabilities",
    "weight_streaming_budget_per_engine",
    "use_cuda_graphs",
    "use_shared_activation_scratch",
    *(name for name in BuildOptions.names() if name != "compute_capabilities"),
)


@dataclass(frozen=True)
class Lowered:
    """A lowered source: the program, its methods as they came in, and what stayed outside of TensorRT."""

    manager: EdgeProgramManager
    methods: Mapping[str, Method]
    outside: tuple[OutsideOperator, ...]


def lower(source: Any, **options: Unpack[LowerKeywords]) -> EdgeProgramManager:
    """Lower a model: what TensorRT can run becomes engines, and the rest stays for ExecuTorch.

    This is :func:`save` up to the point where the program would be planned and written. Call ``to_executorch`` on the
    result; with device-resident inputs or outputs, give it ``device_safe_config(config, methods)``.

    Args:
        source: As for :func:`save`.
        **options: The keywords of :func:`save` except those about the file.

    Returns:
        ExecuTorch's own object, ready for ``to_executorch()``.

    Raises:
        ExportError: The model cannot be lowered as asked; the text says what to change.
        TypeError: An unknown keyword; the text lists all.
    """
    check_keywords("lower", options, LowerKeywords)
    return lower_methods(source, options).manager


def lower_methods(source: Any, options: Mapping[str, Any]) -> Lowered:
    """Lower a model and keep what the report needs. ``options`` are keywords of :func:`lower`, already checked."""
    _check_environment(options)
    load_torch_tensorrt()
    _progress.stage("exporting the model")
    methods = methods_of(source, **{key: options[key] for key in _SOURCE_KEYWORDS if key in options})
    names = tuple(methods)
    _check_constant_methods(options.get("constant_methods"), names)
    extra = _per_method(options.get("partitioners"), names, "partitioners")
    _check_method_names(extra)
    manager, own = _lower_convertible(methods, extra, options)
    for name in names:
        _keep_initial_values(manager.exported_program(name))
    return Lowered(manager, methods, tuple(_outside(own)))


def _lower_convertible(
    methods: Mapping[str, Method], extra: Mapping[str, Sequence[Partitioner]], options: Mapping[str, Any]
) -> tuple[EdgeProgramManager, dict[str, TensorRTPartitioner]]:
    """Lower, leaving out one operator more each time that a conversion fails."""
    failed: set[str] = set()
    while True:
        try:
            return _lower_whole(methods, extra, options, failed)
        except ConversionError as error:
            if not error.operator or error.operator in failed:
                raise
            _LOGGER.warning("%s stays outside of TensorRT: %s", error.operator, error)
            failed.add(error.operator)


def _lower_whole(
    methods: Mapping[str, Method],
    extra: Mapping[str, Sequence[Partitioner]],
    options: Mapping[str, Any],
    failed: Collection[str],
) -> tuple[EdgeProgramManager, dict[str, TensorRTPartitioner]]:
    """Lower, and once more when operators were kept whole for an engine that did not come about."""
    own = _partitioners(methods, options, failed)
    manager = _lower_once(methods, own, extra, options)
    left_whole = {name: partitioner.kept_whole for name, partitioner in own.items()}
    if not any(left_whole.values()):
        return manager, own
    # ExecuTorch has kernels for the parts of these operators only.
    own = _partitioners(methods, options, failed)
    for name, partitioner in own.items():
        partitioner.decompose(left_whole[name])
    return _lower_once(methods, own, extra, options), own


def _lower_once(
    methods: Mapping[str, Method],
    own: Mapping[str, TensorRTPartitioner],
    extra: Mapping[str, Sequence[Partitioner]],
    options: Mapping[str, Any],
) -> EdgeProgramManager:
    _progress.stage("lowering to TensorRT")
    programs = {name: method.program for name, method in methods.items()}
    constant_methods = options.get("constant_methods")
    return to_edge_transform_and_lower(
        programs,
        transform_passes=_passes(options.get("transform_passes"), methods),
        partitioner={name: [own[name], *extra[name]] for name in programs},
        constant_methods=dict(constant_methods) if constant_methods else None,
        compile_config=_compile_config(options.get("compile_config")),
        generate_etrecord=bool(options.get("generate_etrecord", False)),
    )


def _compile_config(given: EdgeCompileConfig | None) -> EdgeCompileConfig:
    if given is None:
        # Engine calls and operators that later partitioners take are not part of the core operator set.
        return EdgeCompileConfig(_check_ir_validity=False)
    # ExecuTorch writes into it.
    return copy.deepcopy(given)


def _check_environment(options: Mapping[str, Any]) -> None:
    if platform.system() != "Linux":
        raise ExportError(f"This is {platform.system()}, but TensorRT programs for ExecuTorch are exported on Linux.")
    if options.get("zero_copy_kv"):
        raise ExportError(
            "zero_copy_kv=True is not offered: key-value caches are handed to the engine and back on every call. "
            "Leave it at False."
        )


def _partitioners(
    methods: Mapping[str, Method], options: Mapping[str, Any], failed: Collection[str]
) -> dict[str, TensorRTPartitioner]:
    specs = _per_method(options.get("compile_specs"), tuple(methods), "compile_specs")
    chosen = {key: options[key] for key in _PARTITIONER_KEYWORDS if key in options}
    partitioners = {name: TensorRTPartitioner(specs[name], **chosen) for name in methods}
    for partitioner in partitioners.values():
        partitioner.leave_out(failed)
    return partitioners


def _per_method(value: Any, names: tuple[str, ...], option: str) -> dict[str, list[Any]]:
    if isinstance(value, Mapping):
        unknown = sorted(set(value) - set(names))
        if unknown:
            raise ValueError(f"{option} names the methods {unknown}, but the source has {list(names)}.")
        return {name: _as_list(value.get(name), f"{option}[{name!r}]") for name in names}
    shared = _as_list(value, option)
    return {name: list(shared) for name in names}


def _as_list(value: Any, option: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise TypeError(f"{option} is {kind_of(value)}, but a list, or a dict of lists by method, is expected.")
    return list(value)


def _check_method_names(extra: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a partitioner that was made for another method: its delegates would look up the wrong code."""
    for name, partitioners in extra.items():
        for partitioner in partitioners:
            if not isinstance(partitioner, Partitioner):
                raise TypeError(f"partitioners holds {kind_of(partitioner)}, but ExecuTorch Partitioners are expected.")
            specs = getattr(getattr(partitioner, "delegation_spec", None), "compile_specs", None) or ()
            for spec in specs:
                if spec.key == "method_name" and bytes(spec.value).decode() != name:
                    raise ValueError(
                        f"The {type(partitioner).__name__} for method {name!r} was made for method "
                        f"{bytes(spec.value).decode()!r}. Give each method its own: partitioners={{{name!r}: [...]}}."
                    )


def _check_constant_methods(constant_methods: Mapping[str, Any] | None, names: tuple[str, ...]) -> None:
    for name in constant_methods or ():
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"constant_methods has the name {name!r}, which is not a Python identifier. Rename it.")
        if name in names:
            raise ValueError(f"constant_methods and the source both have a method {name!r}. Rename one.")


def _passes(given: Any, methods: Mapping[str, Method]) -> Any:
    """Add our pass behind the caller's, in the methods that have dynamic sizes."""
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(methods))
        if unknown:
            raise ValueError(f"transform_passes names the methods {unknown}, but the source has {list(methods)}.")
    dynamic = {name for name, method in methods.items() if _is_dynamic(method.program.graph_module)}
    if not dynamic:
        return {name: list(given.get(name) or ()) for name in methods} if isinstance(given, Mapping) else given
    if given is not None and not isinstance(given, Mapping | Sequence):
        return given if not callable(given) else [given, localize_sizes]
    per_method = _per_method(given, tuple(methods), "transform_passes")
    return {name: [*per_method[name], *([localize_sizes] if name in dynamic else [])] for name in methods}


def _is_dynamic(module: torch.fx.GraphModule) -> bool:
    if has_dynamic_sizes(module):
        return True
    values = (node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder")
    return any(
        isinstance(size, torch.SymInt) for value in values if isinstance(value, torch.Tensor) for size in value.shape
    )


def _keep_initial_values(program: torch.export.ExportedProgram) -> None:
    # Without this mark ExecuTorch stores no value for a buffer that the program writes, and the first call reads
    # whatever was in memory.
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        if node.op == "placeholder" and signature.inputs_to_buffers.get(node.name) in mutated:
            node.meta["et_init_buffer"] = True


def _outside(partitioners: Mapping[str, TensorRTPartitioner]) -> list[OutsideOperator]:
    return [
        OutsideOperator(entry.op, entry.count, entry.reason, method)
        for method, partitioner in partitioners.items()
        for entry in partitioner.outside
    ]
