"""Takes over the engines of modules compiled by Torch-TensorRT. Importing this loads Torch-TensorRT."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime._blob import Alias, Binding, BlobMetadata, pack_blob
from torch_tensorrt_executorch_runtime._errors import ExportError, UnsupportedSourceError, kind_of
from torch_tensorrt_executorch_runtime.export import _progress
from torch_tensorrt_executorch_runtime.export._operator_support import is_engine_call
from torch_tensorrt_executorch_runtime.export._profiles import static_shape
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt

__all__ = ["adopt_program", "compiled_device", "export_compiled", "pack_compiled_engine"]

load_torch_tensorrt()
_exporter = importlib.import_module("torch_tensorrt.dynamo._exporter")
_record = importlib.import_module("torch_tensorrt.dynamo.runtime._serialized_engine_layout")
_runtime_module = importlib.import_module("torch_tensorrt.dynamo.runtime._TorchTensorRTModule")

_KEEP_ENGINES = "Leave retrace out, or pass retrace=False, which keeps the engines as they are."


def export_compiled(
    module: torch.nn.Module,
    *,
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    dynamic_shapes: Any,
    retrace: bool,
    use_legacy_exporter: bool | None,
) -> tuple[ExportedProgram, int]:
    """Export a module that ``torch_tensorrt.dynamo.compile`` made.

    Args:
        module: The compiled module. It is copied, its engines are shared.
        arguments: Example inputs; needed for ``retrace`` and for dynamic shapes.
        keywords: Example keyword inputs.
        dynamic_shapes: As for ``torch.export.export``.
        retrace: Trace the module again instead of taking over its graph.
        use_legacy_exporter: Overrides the exporter that ``retrace`` chooses.

    Returns:
        The program, whose engine calls hold their engine as a constant, and how many there are.

    Raises:
        ExportError: Tracing again failed or would lose an engine.
    """
    if not isinstance(module, torch.fx.GraphModule):
        raise UnsupportedSourceError(
            f"The source is {kind_of(module)} with a compiled part inside, but only the GraphModule that "
            "torch_tensorrt.dynamo.compile returns can be exported. Give that, or the module before it was compiled."
        )
    if retrace and not arguments and not keywords:
        raise ValueError(
            "retrace=True traces the module again and needs example inputs for that. Pass arg_inputs=(...)."
        )
    expected = _compiled_calls(module)
    legacy = (not retrace) if use_legacy_exporter is None else use_legacy_exporter
    try:
        program = _exporter.export(
            module,
            arg_inputs=arguments,
            kwarg_inputs=dict(keywords),
            dynamic_shapes=dynamic_shapes,
            use_legacy_exporter=legacy,
        )
        adopted, engines = adopt_program(program, module.meta.get("_copyback_mutation_buffers") or [])
    except ExportError:
        raise
    except Exception as error:
        advice = f" {_KEEP_ENGINES}" if retrace else ""
        raise ExportError(f"The compiled module could not be exported: {error}.{advice}") from error
    if engines != expected:
        raise ExportError(
            f"The compiled module has {expected} engines, but tracing it again kept {engines}. {_KEEP_ENGINES}"
        )
    return adopted, engines


def adopt_program(program: ExportedProgram, copied_back: Sequence[str]) -> tuple[ExportedProgram, int]:
    """Return a copy of a program with engine calls whose engines are plain byte constants, and their number.

    Args:
        program: A program that calls engines. It is not changed, and its engines are shared.
        copied_back: Buffers whose new values are its last outputs.

    Raises:
        ExportError: An engine's output shapes depend on values.
    """
    utilities = importlib.import_module("torch_tensorrt.executorch._export_utils")
    importlib.import_module("torch_tensorrt.dynamo.runtime.meta_ops.register_meta_ops")
    records: dict[str, list[Any]] = {}
    try:
        engines = utilities.validate_engine_program(program, records)
    except RuntimeError as error:
        raise ExportError(f"{error} Compile the model with fallback_data_dependent_ops=True.") from error
    staged = _exporter._declare_aliased_kv_mutations_on_ep(
        utilities.stage_exported_program(program), copyback_buffers=list(copied_back)
    )
    return utilities.replace_execute_engine(staged, records), int(engines)


def pack_compiled_engine(program: ExportedProgram) -> bytes:
    """Pack the engine that a partition calls, with its bindings in the order of the delegate's arguments.

    Raises:
        ExportError: The partition's inputs or outputs are not exactly the engine's.
    """
    calls = [node for node in program.graph.nodes if is_engine_call(node)]
    if len(calls) != 1:
        raise ExportError(f"A partition calls {len(calls)} compiled engines, but a delegate runs one. Report this.")
    call = calls[0]
    backend = importlib.import_module("torch_tensorrt.executorch.backend")
    record = backend._get_engine_info_for_node(program, call)
    engine = _engine_bytes(record[_record.ENGINE_IDX])
    _progress.engine_packed(size_bytes=len(engine))
    aliases = _runtime_module.deserialize_aliased_io(_text(record, _record.ALIASED_IO_IDX))
    metadata = BlobMetadata(
        bindings=(
            *_inputs(program, call, _names(record, _record.INPUT_BINDING_NAMES_IDX)),
            *_outputs(program, call, _names(record, _record.OUTPUT_BINDING_NAMES_IDX)),
        ),
        aliases=tuple(Alias(output, source, kind) for output, (source, kind) in aliases.items()),
        hardware_compatible=_text(record, _record.HW_COMPATIBLE_IDX) == "1",
        device_id=_device_id(record),
        serialized_metadata=_text(record, _record.SERIALIZED_METADATA_IDX),
        target_platform=_text(record, _record.TARGET_PLATFORM_IDX),
    )
    return pack_blob(metadata, engine)


def compiled_device(program: ExportedProgram, call: torch.fx.Node) -> int:
    """Return the CUDA ordinal of the engine that a node calls."""
    backend = importlib.import_module("torch_tensorrt.executorch.backend")
    return _device_id(backend._get_engine_info_for_node(program, call, metadata_only=True))


def _compiled_calls(module: torch.fx.GraphModule) -> int:
    children = dict(module.named_children())
    return sum(
        node.op == "call_module" and type(children.get(str(node.target))).__name__ == "TorchTensorRTModule"
        for node in module.graph.nodes
    )


def _inputs(program: ExportedProgram, call: torch.fx.Node, names: Sequence[str]) -> list[Binding]:
    arguments_of_call: Any = call.args[0]
    sources = list(arguments_of_call)
    user_inputs = set(program.graph_signature.user_inputs)
    arguments = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in user_inputs]
    if len(names) != len(sources) or set(sources) != set(arguments) or len(sources) != len(arguments):
        raise ExportError(
            f"The engine has the inputs {list(names)}, but the delegate's arguments are "
            f"{[node.name for node in arguments]}. One tensor may be given to an engine only once: clone it before."
        )
    # By identity: equal shapes and a different order of use would otherwise swap tensors unseen.
    name_of = dict(zip(sources, names, strict=True))
    return [_binding(name_of[node], node.meta.get("val"), is_input=True) for node in arguments]


def _outputs(program: ExportedProgram, call: torch.fx.Node, names: Sequence[str]) -> list[Binding]:
    output = program.graph.output_node().args[0]
    values = list(output) if isinstance(output, list | tuple) else [output]
    if values == [call] and len(names) == 1:
        return [_binding(names[0], call.meta.get("val"), is_input=False)]
    taken = [
        value.args[1]
        for value in values
        if isinstance(value, torch.fx.Node) and value.target is operator.getitem and value.args[0] is call
    ]
    if taken != list(range(len(names))) or len(taken) != len(values):
        raise ExportError(
            f"The engine has the outputs {list(names)}, but the program takes the items {taken} of its result. "
            "Compile the model again with only the outputs that it returns."
        )
    return [_binding(name, value.meta.get("val"), is_input=False) for name, value in zip(names, values, strict=True)]


def _binding(name: str, value: Any, *, is_input: bool) -> Binding:
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, torch.Tensor):
        return Binding(name, is_input)
    return Binding(name, is_input, str(value.dtype).removeprefix("torch."), static_shape(value))


def _engine_bytes(value: Any) -> bytes:
    if isinstance(value, torch.Tensor):
        # Over numpy, because bytes() of a storage goes element by element and ignores the tensor's extent.
        return bytes(value.detach().cpu().contiguous().view(torch.uint8).reshape(-1).numpy().data)
    return bytes(value)


def _names(record: Sequence[Any], index: int) -> list[str]:
    return [name for name in _text(record, index).split(_record.SERIALIZED_ENGINE_BINDING_DELIM) if name]


def _device_id(record: Sequence[Any]) -> int:
    first = _text(record, _record.DEVICE_IDX).split(_record.SERIALIZED_RT_DEVICE_DELIM)[0]
    if not first.isdecimal():
        raise ExportError(
            f"The engine's device is recorded as {_text(record, _record.DEVICE_IDX)!r}, but a CUDA ordinal is "
            "expected. Compile the model again."
        )
    return int(first)


def _text(record: Sequence[Any], index: int) -> str:
    value = record[index] if index < len(record) else ""
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
