"""Converts a module to a TensorRT network and builds it. Importing this loads Torch-TensorRT."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch

from torch_tensorrt_executorch_runtime._blob import Binding
from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export import _progress
from torch_tensorrt_executorch_runtime.export._operator_support import ConversionError, operator_name
from torch_tensorrt_executorch_runtime.export._options import BuildOptions
from torch_tensorrt_executorch_runtime.export._profiles import EngineInput
from torch_tensorrt_executorch_runtime.export._settings import compilation_settings
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import (
    load_torch_tensorrt,
    quiet,
    tensorrt,
    tensorrt_version,
    uses_tensorrt_rtx,
)

__all__ = ["build_engine"]

load_torch_tensorrt()
_conversion = importlib.import_module("torch_tensorrt.dynamo.conversion._TRTInterpreter")
_converter_utils = importlib.import_module("torch_tensorrt.dynamo.conversion.converter_utils")
_enums = importlib.import_module("torch_tensorrt._enums")


def build_engine(
    module: torch.fx.GraphModule, inputs: Sequence[EngineInput], outputs: Sequence[Binding], options: BuildOptions
) -> tuple[bytes, int]:
    """Build the engine of a module.

    Args:
        module: The graph in plain ATen, as Torch-TensorRT's passes left it.
        inputs: Its inputs in order.
        outputs: Names and types of its outputs in order.
        options: How to build.

    Returns:
        The serialized engine, and the number of layers of its network.

    Raises:
        ExportError: TensorRT refused; the text holds its reason.
    """
    interpreter = _Interpreter(module, inputs, outputs, compilation_settings(options))
    interpreter.construct()
    return interpreter.build(options.compute_capabilities), int(interpreter.ctx.net.num_layers)


class _Interpreter(_conversion.TRTInterpreter):  # type: ignore[misc, name-defined]
    """Torch-TensorRT's interpreter without the parts that need a GPU.

    It marks each output of the module as an output of its own. Torch-TensorRT leaves out what is the same tensor
    twice or an input, but a delegate has one argument for each.
    """

    def __init__(
        self, module: torch.fx.GraphModule, inputs: Sequence[EngineInput], outputs: Sequence[Binding], settings: Any
    ) -> None:
        # It warns about empty inputs, which the delegate serves.
        with quiet("torch_tensorrt._Input"):
            specs = [_input_spec(entry) for entry in inputs]
        super().__init__(module, specs, compilation_settings=settings)
        self._outputs = outputs

    def construct(self) -> None:
        """Convert every node."""
        try:
            # Its log lines about nodes stumble over arguments that are None, which is none of the user's business.
            with quiet(_converter_utils.__name__):
                self._construct_trt_network_def()
        except ExportError:
            raise
        except Exception as error:
            # PyTorch appends several lines about the graph.
            reason = (str(error) or type(error).__name__).splitlines()[0]
            operator = "" if self._cur_node is None else operator_name(self._cur_node.target)
            raise ConversionError(
                f"Torch-TensorRT could not convert {operator or 'an input'} ({self._cur_node_name}): {reason}. "
                "Keep the operator out with torch_executed_ops.",
                operator=operator,
            ) from error
        if self.ctx.aliased_outputs:
            names = [entry.input_binding_name for entry in self.ctx.aliased_outputs]
            raise ExportError(
                f"The engine would write into its inputs {names}, which the program expects unchanged. "
                "Keep the operators that update them out with torch_executed_ops."
            )
        if self.ctx.requires_output_allocator:
            raise ExportError(
                "An engine's output shape depends on the values of its input, which no delegate can plan for. "
                "Keep the operator (nonzero, boolean index) out with torch_executed_ops."
            )

    def build(self, capabilities: Sequence[str]) -> bytes:
        """Build the constructed network.

        Args:
            capabilities: GPUs to build for; empty: every GPU that TensorRT supports.
        """
        config = self._populate_trt_builder_config()
        _set_capabilities(config, capabilities)
        monitor = _progress.monitor()
        if monitor is not None:
            config.progress_monitor = monitor
        host = self.builder.build_serialized_network(self.ctx.net, config)
        self.ctx.clear_cpu_weights_reference_holder()
        if host is None:
            raise ExportError(
                f"TensorRT {tensorrt_version()} could not build an engine with the inputs {self._input_names}. "
                "Its own messages stand above. Keep the operators that they name out with torch_executed_ops."
            )
        return bytes(host)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Convert one node, to the type that the graph says.

        Converters leave int32 where PyTorch has int64 (indices, sums), and the next ones would compute in it.
        """
        result = super().run_node(n)
        value = n.meta.get("val")
        trt = tensorrt()
        if n.op != "call_function" or not isinstance(value, torch.Tensor) or not isinstance(result, trt.ITensor):
            return result
        dtype = _enums.dtype._from(value.dtype).to(trt.DataType)
        return result if result.dtype == dtype else self.ctx.net.add_cast(result, dtype).get_output(0)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Convert one operator, whose converter gets tensors of the network where it takes nothing else."""
        if target is torch.ops.aten.scaled_dot_product_attention.default:
            args = tuple(self._network_tensor(value, position) for position, value in enumerate(args))
        return super().call_function(target, args, kwargs)

    def _network_tensor(self, value: Any, position: int) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return _converter_utils.get_trt_tensor(self.ctx, value, f"{self._cur_node_name}_constant_{position}")

    def output(self, target: str, args: Any, kwargs: Any) -> list[Any]:
        """Mark the network's outputs, one for each output of the module."""
        del target, kwargs
        values = args[0] if isinstance(args[0], list | tuple) else (args[0],)
        marked = []
        names = {self.ctx.net.get_input(i).name for i in range(self.ctx.net.num_inputs)}
        for value, binding in zip(values, self._outputs, strict=True):
            tensor = self._own_tensor(value, binding, names)
            tensor.name = binding.name
            names.add(binding.name)
            self.ctx.net.mark_output(tensor)
            self._output_names.append(binding.name)
            marked.append(tensor)
        return marked

    def _own_tensor(self, value: Any, binding: Binding, taken: set[str]) -> Any:
        trt = tensorrt()
        constant = not isinstance(value, trt.ITensor)
        tensor = _converter_utils.get_trt_tensor(self.ctx, value, f"{binding.name}_constant") if constant else value
        dtype = _enums.dtype._from(getattr(torch, binding.dtype)).to(trt.DataType)
        if tensor.dtype != dtype:
            return self.ctx.net.add_cast(tensor, dtype).get_output(0)
        if constant or tensor.name in taken:
            return self.ctx.net.add_identity(tensor).get_output(0)
        return tensor


def _input_spec(entry: EngineInput) -> Any:
    torch_tensorrt = load_torch_tensorrt()
    if entry.profile is None:
        return torch_tensorrt.Input(shape=entry.shape, dtype=entry.dtype, name=entry.name)
    return torch_tensorrt.Input(
        min_shape=entry.profile.min,
        opt_shape=entry.profile.opt,
        max_shape=entry.profile.max,
        dtype=entry.dtype,
        name=entry.name,
    )


def _set_capabilities(config: Any, capabilities: Sequence[str]) -> None:
    if not capabilities:
        return
    if not uses_tensorrt_rtx():
        raise ExportError(
            f"compute_capabilities is {list(capabilities)}, but TensorRT {tensorrt_version()} builds for the GPU of "
            "this machine only. Leave compute_capabilities out, or install torch-tensorrt-rtx."
        )
    members = tensorrt().ComputeCapability.__members__
    config.num_compute_capabilities = len(capabilities)
    for index, capability in enumerate(capabilities):
        member = members.get(f"SM{capability.replace('.', '')}")
        if member is None or not config.set_compute_capability(member, index):
            raise ExportError(
                f"compute_capabilities holds {capability!r}, but TensorRT-RTX {tensorrt_version()} can name only "
                f"{_known_capabilities(members)}. Leave compute_capabilities out to build for every GPU that it knows."
            )


def _known_capabilities(members: Any) -> str:
    numbers = sorted(int(name[2:]) for name in members if name.startswith("SM"))
    return ", ".join(f"{number // 10}.{number % 10}" for number in numbers)
