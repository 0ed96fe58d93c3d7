"""Turns what the caller has into one exported program per method."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.passes import move_to_device_pass

from torch_tensorrt_executorch_runtime._errors import ExportError, UnsupportedSourceError, kind_of
from torch_tensorrt_executorch_runtime.export._containers import with_writable_containers
from torch_tensorrt_executorch_runtime.export._examples import Example
from torch_tensorrt_executorch_runtime.export._operator_support import is_engine_call
from torch_tensorrt_executorch_runtime.export._profiles import size_range

__all__ = ["Method", "methods_of"]

_LOGGER = logging.getLogger("torch_tensorrt_executorch_runtime.export")

_WHAT_IS_SUPPORTED = (
    "Give a torch.nn.Module with arg_inputs, a torch.export.ExportedProgram, a GraphModule compiled by "
    "torch_tensorrt.dynamo.compile, or a dict of method names to ExportedPrograms."
)

# Position of the argument that says whether the operator behaves as in training.
_TRAINING_FLAGS: dict[str, int] = {
    "aten.dropout": 2,
    "aten.feature_dropout": 2,
    "aten.alpha_dropout": 2,
    "aten.feature_alpha_dropout": 2,
    "aten.native_dropout": 2,
    "aten.batch_norm": 5,
    "aten.native_batch_norm": 5,
    "aten.cudnn_batch_norm": 5,
    "aten._native_batch_norm_legit": 5,
    "aten._native_batch_norm_legit_functional": 5,
    "aten.rrelu": 3,
}


@dataclass(frozen=True)
class Method:
    """One method: its program, and how many engines it brings when it was compiled before."""

    program: ExportedProgram
    compiled_engines: int = 0


def methods_of(
    source: Any,
    *,
    inputs: Sequence[Any] | None = None,
    arg_inputs: Sequence[Any] | None = None,
    kwarg_inputs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    retrace: bool | None = None,
    use_legacy_exporter: bool | None = None,
) -> dict[str, Method]:
    """Return the methods of a source. The source is not changed.

    Raises:
        UnsupportedSourceError: The source is of a kind that cannot be exported.
        ExportError: It is of a supported kind but cannot be exported as it is.
        ValueError: The other arguments do not fit the source.
    """
    if inputs is not None and arg_inputs is not None:
        raise ValueError("inputs and arg_inputs are two names of one argument. Pass one of them.")
    example = Example(inputs if inputs is not None else arg_inputs, kwarg_inputs, dynamic_shapes)
    source = _unwrap(source)
    if isinstance(source, Mapping):
        programs = _mapping(source, example, retrace)
    elif isinstance(source, ExportedProgram):
        _check_program_options(example, retrace)
        programs = {"forward": source}
    elif isinstance(source, torch.nn.Module):
        return {"forward": _module(source, example, retrace=bool(retrace), use_legacy_exporter=use_legacy_exporter)}
    else:
        raise UnsupportedSourceError(f"The source is {kind_of(source)}. {_WHAT_IS_SUPPORTED}")
    return {name: _method(program, name) for name, program in programs.items()}


def _unwrap(source: Any) -> Any:
    """Return the module inside the wrapper that Torch-TensorRT puts around it for CUDA graphs."""
    if type(source).__name__ == "CudaGraphsTorchTensorRTModule":
        return source.compiled_module
    return source


def _mapping(source: Mapping[Any, Any], example: Example, retrace: bool | None) -> dict[str, ExportedProgram]:
    if not source:
        raise ValueError("The dict of methods is empty. Give at least one method name with its ExportedProgram.")
    if not example.is_empty or example.dynamic_shapes is not None or retrace:
        raise ValueError(
            "Inputs, dynamic_shapes and retrace=True do not go with a dict of methods: its programs are exported "
            "already. Leave them out."
        )
    names_by_id: dict[int, str] = {}
    for name, program in source.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"The method name {name!r} is not a Python identifier. Rename it.")
        if not isinstance(program, ExportedProgram):
            raise UnsupportedSourceError(
                f"Method {name!r} is {kind_of(program)}, but a dict of methods takes ExportedPrograms. "
                "Export it with torch.export.export first."
            )
        twin = names_by_id.setdefault(id(program), name)
        if twin != name:
            raise ValueError(f"{twin!r} and {name!r} are one ExportedProgram object. Export each method by itself.")
    return dict(source)


def _check_program_options(example: Example, retrace: bool | None) -> None:
    if example.dynamic_shapes is not None or retrace:
        raise ValueError(
            "dynamic_shapes and retrace=True do not go with an ExportedProgram: it is exported already. "
            "Give them to torch.export.export."
        )
    if not example.is_empty:
        _LOGGER.warning("The example inputs are not used: the ExportedProgram has its own.")


def _module(module: torch.nn.Module, example: Example, *, retrace: bool, use_legacy_exporter: bool | None) -> Method:
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedSourceError(f"The source is a TorchScript module. {_WHAT_IS_SUPPORTED}")
    if hasattr(module, "_orig_mod"):
        raise UnsupportedSourceError(
            "The source was made by torch.compile, whose result cannot be exported. Give the module that was passed to "
            "torch.compile."
        )
    if any(type(child).__name__ == "TorchTensorRTModule" for child in module.modules()):
        return _compiled(module, example, retrace=retrace, use_legacy_exporter=use_legacy_exporter)
    if example.is_empty:
        raise UnsupportedSourceError(
            f"The source is {kind_of(module)} and there are no example inputs to export it with. Pass arg_inputs=(...)."
        )
    return _method(_export(module, example), "forward")


def _compiled(module: torch.nn.Module, example: Example, *, retrace: bool, use_legacy_exporter: bool | None) -> Method:
    compiled = importlib.import_module("torch_tensorrt_executorch_runtime.export._compiled_module")
    arguments, keywords = example.tensors()
    program, engines = compiled.export_compiled(
        module,
        arguments=arguments,
        keywords=keywords,
        dynamic_shapes=example.shapes(module),
        retrace=retrace,
        use_legacy_exporter=use_legacy_exporter,
    )
    return _method_of(_weights_on_cpu(program), engines)


def _export(module: torch.nn.Module, example: Example) -> ExportedProgram:
    arguments, keywords = example.tensors()
    dynamic_shapes = example.shapes(module)
    try:
        with torch.no_grad():
            return torch.export.export(module, arguments, keywords, dynamic_shapes=dynamic_shapes, strict=False)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ExportError(f"torch.export could not export the {type(module).__name__}: {error}") from error


def _method(program: ExportedProgram, name: str) -> Method:
    if any(is_engine_call(node) for node in program.graph.nodes):
        compiled = importlib.import_module("torch_tensorrt_executorch_runtime.export._compiled_module")
        adopted, engines = compiled.adopt_program(program, [])
        return _method_of(_weights_on_cpu(adopted), engines)
    _refuse_training(program, name)
    _refuse_unbounded(program, name)
    return _method_of(_on_cpu(program))


def _method_of(program: ExportedProgram, compiled_engines: int = 0) -> Method:
    return Method(with_writable_containers(program), compiled_engines)


def _refuse_training(program: ExportedProgram, name: str) -> None:
    for node in program.graph.nodes:
        target = str(getattr(node.target, "overloadpacket", ""))
        position = _TRAINING_FLAGS.get(target)
        if position is not None and len(node.args) > position and node.args[position] is True:
            raise ExportError(
                f"Method {name!r} was exported in training mode: {target} at {node.name!r} drops values or updates "
                "statistics. Call .eval() on the module before exporting."
            )


def _refuse_unbounded(program: ExportedProgram, name: str) -> None:
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or node.name not in inputs or not isinstance(value, torch.Tensor):
            continue
        for axis, size in enumerate(value.shape):
            if size_range(size, program.range_constraints) is None:
                raise ExportError(
                    f"Method {name!r}: dimension {axis} of input {node.name!r} ({size}) has no upper bound, but an "
                    f"engine needs one. Export with torch.export.Dim({f'{node.name}_dim{axis}'!r}, min=1, max=...)."
                )


def _on_cpu(program: ExportedProgram) -> ExportedProgram:
    """Return the program with everything in host memory, from where engines and files are written."""
    values = [node.meta.get("val") for node in program.graph.nodes]
    if all(value.device.type == "cpu" for value in (*_weights(program), *filter(_is_tensor, values))):
        return program
    # run_decompositions makes a program of its own, so that the move does not reach the caller's.
    copied = program.run_decompositions({})
    copied._state_dict = dict(copied.state_dict)
    copied._constants = dict(copied.constants)
    return move_to_device_pass(copied, "cpu")


def _weights_on_cpu(program: ExportedProgram) -> ExportedProgram:
    """Move the weights of a program of our own to host memory, in place."""
    if any(value.device.type != "cpu" for value in _weights(program)):
        return move_to_device_pass(program, "cpu")
    return program


def _weights(program: ExportedProgram) -> list[torch.Tensor]:
    return [value for value in (*program.state_dict.values(), *program.constants.values()) if _is_tensor(value)]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
