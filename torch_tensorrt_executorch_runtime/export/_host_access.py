"""Finds operators on the CPU that a finished program would let at GPU memory.

With ``skip_h2d_for_method_inputs`` a caller hands over GPU memory, and with ``skip_d2h_for_method_outputs`` expects it.
ExecuTorch leaves out the copies between the caller and an engine only; where an operator outside of the engines stands
at the border of the method, it would read or write the caller's GPU memory from the CPU, which ends the process.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, ExecutorchProgramManager, memory
from executorch.exir.schema import DeviceType
from executorch.exir.tensor import TensorSpec
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime._blob import BACKEND_ID
from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export._delegates import called_delegate, target_device
from torch_tensorrt_executorch_runtime.export.memory_planning import of_method

__all__ = ["refuse_host_access"]

_SKIP_INPUTS = "skip_h2d_for_method_inputs"
_SKIP_OUTPUTS = "skip_d2h_for_method_outputs"

# They touch no memory, or know where it is.
_HARMLESS = (
    memory.alloc,
    memory.free,
    memory.view,
    operator.getitem,
    torch.ops.et_copy._h2d_copy.out,
    torch.ops.et_copy._d2h_copy.out,
)


def refuse_host_access(
    program: ExecutorchProgramManager, config: ExecutorchBackendConfig, methods: tuple[str, ...]
) -> None:
    """Refuse a program in which an operator on the CPU meets GPU memory.

    Args:
        program: What ``to_executorch`` returned.
        config: What it was given.
        methods: The methods to look at.

    Raises:
        ExportError: The text names method, operator, the input or output, and what to change.
    """
    for name in methods:
        device = of_method(config.propagate_device_config, name)
        method = _Method(name, program.exported_program(name))
        method.refuse_reads(inputs_on_gpu=bool(getattr(device, _SKIP_INPUTS, False)))
        if getattr(device, _SKIP_OUTPUTS, False):
            method.refuse_outputs()


class _Method:
    def __init__(self, name: str, program: ExportedProgram) -> None:
        self._name = name
        self._module = program.graph_module
        self._nodes = list(program.graph.nodes)
        self._inputs = set(program.graph_signature.user_inputs)

    def refuse_reads(self, *, inputs_on_gpu: bool) -> None:
        for node in self._nodes:
            for source in map(_owner, node.all_input_nodes):
                # A copy to the GPU reads host memory. It is left out for an input itself, but not for a view of one.
                if inputs_on_gpu and self._is_input(source) and (self._runs_on_cpu(node) or _is_copy_to_gpu(node)):
                    self._refuse_input(node, source)
                if _is_on_gpu(source) and self._runs_on_cpu(node):
                    raise ExportError(
                        f"{self._who(node)} and works on {source.name!r}, which is in GPU memory. Leave {_SKIP_INPUTS} "
                        f"and {_SKIP_OUTPUTS} out for this method."
                    )

    def refuse_outputs(self) -> None:
        for index, output in enumerate(self._outputs()):
            source = _owner(output)
            if _is_copy_to_host(source):
                for reader in filter(self._runs_on_cpu, _readers(source)):
                    self._refuse_output(reader, "reads", index)
            elif self._runs_on_cpu(_producer(source)):
                self._refuse_output(_producer(source), "writes", index)

    def _outputs(self) -> Iterator[torch.fx.Node]:
        (last,) = (node for node in self._nodes if node.op == "output")
        yield from last.all_input_nodes

    def _is_input(self, node: torch.fx.Node) -> bool:
        return node.op == "placeholder" and node.name in self._inputs and isinstance(node.meta.get("spec"), TensorSpec)

    def _runs_on_cpu(self, node: torch.fx.Node) -> bool:
        if node.op != "call_function" or node.target in _HARMLESS:
            return False
        delegate = self._delegate(node)
        return delegate is None or not _is_gpu_delegate(delegate)

    def _delegate(self, node: torch.fx.Node) -> Any:
        return called_delegate(self._module, node)

    def _refuse_input(self, node: torch.fx.Node, source: torch.fx.Node) -> None:
        order = list(source.meta["spec"].dim_order)
        if order == sorted(order):
            cure = f"Leave {_SKIP_INPUTS} out for this method, or add a partitioner that takes the operator."
        else:
            cure = f"Give a contiguous example input, or leave {_SKIP_INPUTS} out for this method."
        raise ExportError(
            f"{self._who(node)} and reads input {source.name!r}, which {_SKIP_INPUTS} leaves in GPU memory. {cure}"
        )

    def _refuse_output(self, node: torch.fx.Node, does: str, index: int) -> None:
        raise ExportError(
            f"{self._who(node)} and {does} output {index}, which {_SKIP_OUTPUTS} leaves in GPU memory. Leave "
            f"{_SKIP_OUTPUTS} out for this method, or add a partitioner that takes the operator."
        )

    def _who(self, node: torch.fx.Node) -> str:
        delegate = self._delegate(node)
        what = f"operator {_operator_name(node)}" if delegate is None else f"the delegate {delegate.backend_id}"
        return f"Method {self._name!r}: {what} runs on the CPU"


def _operator_name(node: torch.fx.Node) -> str:
    return str(getattr(node.target, "overloadpacket", node.target))


def _is_gpu_delegate(delegate: Any) -> bool:
    # Ours looks where each tensor is.
    if delegate.backend_id == BACKEND_ID:
        return True
    return target_device(delegate).startswith("cuda")


def _owner(node: torch.fx.Node) -> torch.fx.Node:
    """Return the node whose memory a view shows; other nodes are returned as they are."""
    while node.target is memory.view:
        base: Any = node.args[0]  # sizes may be further inputs
        node = base
    return node


def _producer(node: torch.fx.Node) -> torch.fx.Node:
    """Return what computes a value: for an item of a result, what computes the result."""
    if node.target is not operator.getitem:
        return node
    (source,) = node.all_input_nodes
    return source


def _readers(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield what reads a value, by itself or as a view."""
    for user in node.users:
        if user.target is memory.view:
            yield from _readers(user)
        else:
            yield user


def _is_copy_to_gpu(node: torch.fx.Node) -> bool:
    return node.target is torch.ops.et_copy._h2d_copy.out


def _is_copy_to_host(node: torch.fx.Node) -> bool:
    return node.target is torch.ops.et_copy._d2h_copy.out


def _is_on_gpu(node: torch.fx.Node) -> bool:
    spec = node.meta.get("spec")
    return isinstance(spec, TensorSpec) and spec.device == DeviceType.CUDA
