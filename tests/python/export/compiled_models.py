"""Modules compiled by ``torch_tensorrt.dynamo.compile`` on a machine without a GPU.

The engines are real. Only what needs a driver is replaced: the GPU's properties, the deserialization that reads
aliases, and the object that would run the engine.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt

_PROPERTIES = SimpleNamespace(name="Test GPU", major=8, minor=0, total_memory=2**34, multi_processor_count=100)
_ANSWERS = {
    "get_device_capability": (8, 0),
    "current_device": 0,
    "get_device_properties": _PROPERTIES,
}


class EngineStandIn:
    """Holds an engine's record as the runtime's engine object does, without being able to run it."""

    def __init__(self, record: list[Any]) -> None:
        self._record = record

    def serialize_metadata_only(self) -> list[Any]:
        return [*self._record[:3], "", *self._record[4:]]

    def serialized_engine_tensor(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(self._record[3]), dtype=torch.uint8)

    def set_output_tensors_as_unowned(self, enabled: bool) -> None:
        pass

    def are_output_tensors_unowned(self) -> bool:
        return False

    def __deepcopy__(self, memo: dict[int, Any]) -> EngineStandIn:
        return self


@contextlib.contextmanager
def _without_driver(replaced: list[tuple[Any, str, Any]]) -> Iterator[None]:
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)


def compile_module(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], **options: Any) -> torch.fx.GraphModule:
    """Compile as a user would on a GPU; ``options`` are keywords of ``torch_tensorrt.dynamo.compile``."""
    torch_tensorrt = load_torch_tensorrt()
    conversion = importlib.import_module("torch_tensorrt.dynamo.conversion._conversion")
    runtime = importlib.import_module("torch_tensorrt.dynamo.runtime._TorchTensorRTModule")
    interpreter = importlib.import_module("torch_tensorrt.dynamo.conversion._TRTInterpreter")
    compiler = importlib.import_module("torch_tensorrt.dynamo._compiler")

    class Interpreter(interpreter.TRTInterpreter):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            self._construct_trt_network_def()
            host = self.builder.build_serialized_network(self.ctx.net, self._populate_trt_builder_config())
            data = bytes(host)
            engine = SimpleNamespace(serialize=lambda: data, get_aliased_input_tensor=lambda name: None)
            return interpreter.TRTInterpreterResult(
                engine, self._input_names, self._output_names, self.ctx.requires_output_allocator, False, {}
            )

    def set_up(self: Any) -> None:
        self.engine = EngineStandIn(self._pack_engine_info())

    def answering(value: Any) -> Any:
        return lambda *args, **kwargs: value

    replaced = [(torch.cuda, name, answering(value)) for name, value in _ANSWERS.items()]
    replaced += [
        (conversion, "TRTInterpreter", Interpreter),
        (runtime.TorchTensorRTModule, "setup_engine", set_up),
        (compiler, "to_torch_device", answering(torch.device("cpu"))),
    ]
    dynamic_shapes = options.pop("dynamic_shapes", None)
    with _without_driver(replaced), torch.no_grad():
        program = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
        return torch_tensorrt.dynamo.compile(
            program,
            arg_inputs=inputs,
            device=torch.device("cuda:0"),
            min_block_size=1,
            offload_module_to_cpu=True,
            lazy_engine_init=True,
            **options,
        )


def engines_in(module: torch.fx.GraphModule) -> list[bytes]:
    """Return the engines of a compiled module in the order in which it calls them."""
    children = dict(module.named_children())
    return [
        children[str(node.target)].serialized_engine
        for node in module.graph.nodes
        if node.op == "call_module" and hasattr(children[str(node.target)], "serialized_engine")
    ]
