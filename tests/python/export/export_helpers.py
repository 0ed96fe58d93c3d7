"""Lowers small models, looks into the result, and runs it on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from models.corner_cases import One, Three, Two
from torch_tensorrt_executorch_runtime import _program
from torch_tensorrt_executorch_runtime._blob import BACKEND_ID, Blob, unpack_blob
from torch_tensorrt_executorch_runtime.export import _engine_builder
from torch_tensorrt_executorch_runtime.export._options import BuildOptions
from torch_tensorrt_executorch_runtime.export.lower import Lowered, lower_methods

__all__ = [
    "Computed",
    "One",
    "Result",
    "Three",
    "Two",
    "blobs_of",
    "check_against_eager",
    "check_bindings",
    "lower_model",
    "read_pte",
]

DEFAULTS = BuildOptions()
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-9}


class Computed(nn.Module):
    """What a function computes of this module, to which a subclass gives layers of a fixed seed, and of its inputs."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.compute = compute

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.compute(self, *inputs)


@dataclass
class Result:
    """A lowered model with one method."""

    lowered: Lowered
    method: str = "forward"

    @property
    def program(self) -> torch.export.ExportedProgram:
        return self.lowered.manager.exported_program(self.method)

    @property
    def delegates(self) -> list[Any]:
        """The lowered modules in the order in which they are called."""
        module = self.program.graph_module
        return [
            getattr(module, str(node.target))
            for node in module.graph.nodes
            if node.op == "get_attr" and hasattr(getattr(module, str(node.target)), "processed_bytes")
        ]

    @property
    def blobs(self) -> list[Blob]:
        return [unpack_blob(module.processed_bytes) for module in self.delegates if module.backend_id == BACKEND_ID]

    def given(self, options: BuildOptions = DEFAULTS) -> torch.fx.GraphModule:
        """Return the module that TensorRT's converters are given for the only engine."""
        (delegate,) = self.delegates
        return _given(delegate.original_module, options)

    @property
    def outside(self) -> dict[str, str]:
        """The reason for each operator outside."""
        return {entry.op: entry.reason for entry in self.lowered.outside}

    def run(
        self,
        *inputs: Any,
        options: BuildOptions = DEFAULTS,
        runner: Callable[[torch.fx.GraphModule], torch.fx.Interpreter] = torch.fx.Interpreter,
    ) -> list[Any]:
        """Run the program on the CPU, each engine by the module that TensorRT's converters were given."""
        for module in self.delegates:
            if module.backend_id == BACKEND_ID:
                # ExecuTorch runs a delegate on the CPU by the module that its program makes.
                module.original_module.module = _partition(module.original_module, options, runner)
        return pytree.tree_leaves(self.program.module()(*inputs))


def lower_model(module: Any, *inputs: Any, **options: Any) -> Result:
    arguments = {"arg_inputs": inputs} if inputs else {}
    return Result(lower_methods(module, {**arguments, **options}))


def _given(program: Any, options: BuildOptions) -> torch.fx.GraphModule:
    module, _ = _engine_builder.partition_module(program, options)
    return module


def _partition(program: Any, options: BuildOptions, runner: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    lowered = _given(program, options)
    return lambda: lambda *inputs: list(runner(lowered).run(*inputs))


def check_against_eager(result: Result, module: nn.Module, *inputs: Any) -> None:
    """Compare every output of the lowered program with eager PyTorch: type, shape and value.

    A module with state must not be the one that was lowered, whose buffers the program shares.
    """
    with torch.no_grad():
        expected = pytree.tree_leaves(module(*pytree.tree_map_only(torch.Tensor, torch.clone, inputs)))
    actual = result.run(*inputs)
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        if not isinstance(want, torch.Tensor):
            assert got == want
            continue
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        tolerance = TOLERANCE.get(want.dtype, 0)
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def check_bindings(result: Result) -> None:
    """Compare the bindings of every engine with the arguments of its delegate: count, order, type and shape."""
    for module, blob in zip(result.delegates, result.blobs, strict=True):
        program = module.original_module
        inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
        outputs = program.graph.output_node().args[0]
        for bindings, nodes in ((blob.metadata.inputs, inputs), (blob.metadata.outputs, outputs)):
            assert [(b.dtype, b.shape) for b in bindings] == [_described(node.meta["val"]) for node in nodes]
        assert [binding.name for binding in blob.metadata.outputs] == [f"output_{i}" for i in range(len(outputs))]
        assert bytes(blob.engine[:4]) == b"vtrt"


def _described(value: torch.Tensor) -> tuple[str, tuple[int, ...]]:
    shape = tuple(-1 if isinstance(size, torch.SymInt) else size for size in value.shape)
    return str(value.dtype).removeprefix("torch."), shape


def read_pte(path: Path) -> _program.Program:
    return _program.read_program(memoryview(path.read_bytes()))


def blobs_of(path: Path, method: str = "forward") -> list[Blob]:
    (found,) = (entry for entry in read_pte(path).methods if entry.name == method)
    return [unpack_blob(delegate.data) for delegate in found.delegates if delegate.backend == BACKEND_ID]
