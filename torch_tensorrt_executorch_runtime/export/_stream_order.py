"""Finds the engines whose results nobody reads outside of the stream's order, so that a call need not wait for them."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig
from executorch.exir.backend.compile_spec_schema import CompileSpec

from torch_tensorrt_executorch_runtime._blob import BACKEND_ID
from torch_tensorrt_executorch_runtime.export._delegates import called_delegate, target_device
from torch_tensorrt_executorch_runtime.export._options import STREAM_ORDER_SPEC
from torch_tensorrt_executorch_runtime.export.memory_planning import of_method

__all__ = ["mark_results_in_stream_order"]


def mark_results_in_stream_order(
    manager: EdgeProgramManager, config: ExecutorchBackendConfig, methods: tuple[str, ...]
) -> None:
    """Add a compile spec to every engine whose results go to copies or other engines only.

    Those run on the same stream. A result that leaves the method in GPU memory, or goes to another backend, must be
    there when the call returns.

    Args:
        manager: The lowered program; the compile specs of its engines are changed.
        config: What ``to_executorch`` will be given: it decides which copies there will be.
        methods: The methods to look at.
    """
    for name in methods:
        device = of_method(config.propagate_device_config, name)
        leaves_on_gpu = bool(getattr(device, "skip_d2h_for_method_outputs", False))
        module = manager.exported_program(name).graph_module
        for node in module.graph.nodes:
            engine = _engine(module, node)
            if engine is not None and _stays_in_order(module, node, engine, leaves_on_gpu=leaves_on_gpu):
                engine.compile_specs.append(CompileSpec(STREAM_ORDER_SPEC, b"1"))


def _engine(module: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    delegate = called_delegate(module, node)
    return delegate if delegate is not None and delegate.backend_id == BACKEND_ID else None


def _stays_in_order(module: torch.fx.GraphModule, node: torch.fx.Node, engine: Any, *, leaves_on_gpu: bool) -> bool:
    for result in node.users:
        for reader in result.users:
            if reader.op == "output":
                in_order = not leaves_on_gpu
            elif isinstance(reader.target, torch._ops.HigherOrderOperator):  # another delegate, or control flow
                other = _engine(module, reader)
                in_order = other is not None and _device(other) == _device(engine)
            else:  # an operator on the CPU: it reads a copy
                in_order = True
            if not in_order:
                return False
    return True


def _device(engine: Any) -> str:
    return target_device(engine) or "cuda:0"
