"""The ways to run a model that share this process: the delegate, Torch-TensorRT and PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import torch_tensorrt_executorch_runtime as tter
from gpu.blobs import Blob, find_blobs
from gpu.every_tensor.programs import PROGRAMS, write

from .timing import Contender, timed

Maker = Callable[[], Contender]


class Model:
    """One compared model: its program, its module on the GPU and its inputs there."""

    def __init__(self, name: str, programs: Path) -> None:
        self.name = name
        self.program = PROGRAMS[f"{name}.device"]
        self.path = write(f"{name}.device", programs)
        self.inputs = [x.cuda() for x in self.program.example()]
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def modules(self) -> list[nn.Module]:
        """Return the module of each method on the GPU."""
        return [self.program.module(seed).cuda() for seed in range(len(self.program.methods))]

    def expected(self) -> Tensor:
        """Return what eager PyTorch gives in the type of the model."""
        with torch.no_grad():
            return _chain(self.modules(), self.inputs)()

    def makers(self) -> Iterator[tuple[str, Maker]]:
        """Yield every way to run the model by its name."""
        yield "ours_plain", lambda: self._ours(graphs=False)
        yield "ours", lambda: self._ours(graphs=True)
        yield "ours_outputs_not_cloned", lambda: self._ours(graphs=True, clone=False)
        yield "torch_tensorrt", lambda: self._torch_tensorrt(graphs=False)
        yield "torch_tensorrt_graphs", lambda: self._torch_tensorrt(graphs=True)
        yield "eager", self._eager
        yield "eager_graph", self._eager_graph

    def _contender(self, name: str, call: Callable[[], Any]) -> Contender:
        """Check that a way to run the model gives the right result, then return it."""
        with self._on_stream():
            for _ in range(3):
                result = call()
        torch.cuda.synchronize()
        error = _relative_error(result, self.expected())
        if not error < 5e-2:
            raise RuntimeError(f"the result is wrong by {error:.1e} of its size")
        return Contender(name, timed(call, self.stream.synchronize, self._on_stream))

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        """Choose the stream for everyone, PyTorch's current one and the delegate's, and leave gradients out."""
        with torch.inference_mode(), torch.cuda.stream(self.stream), tter.caller_stream(self.stream):
            yield

    def _ours(self, *, graphs: bool, clone: bool = True) -> Contender:
        from executorch.runtime import Runtime

        tter.set_option("use_cuda_graphs", graphs)
        program = Runtime.get().load_program(self.path)
        first, *others = [program.load_method(method) for method in self.program.methods]

        def call() -> Sequence[Tensor]:
            values: Sequence[Tensor] = first.execute(self.inputs, clone_outputs=clone)
            for method in others:
                values = method.execute(values, clone_outputs=clone)
            return values

        name = "ours_plain" if not graphs else "ours" if clone else "ours_outputs_not_cloned"
        return self._contender(name, call)

    def _torch_tensorrt(self, *, graphs: bool) -> Contender:
        import torch_tensorrt

        modules = [_engine_module(blob) for blob in find_blobs(self.path)]
        if len(modules) != len(self.program.methods):
            raise RuntimeError(f"the program has {len(modules)} engines for {len(self.program.methods)} methods")
        run = _chain(modules, self.inputs)

        def call() -> Tensor:
            torch_tensorrt.runtime.set_cudagraphs_mode(graphs)
            return run()

        return self._contender("torch_tensorrt_graphs" if graphs else "torch_tensorrt", call)

    def _eager(self) -> Contender:
        return self._contender("eager", _chain(self.modules(), self.inputs))

    def _eager_graph(self) -> Contender:
        run = _chain(self.modules(), self.inputs)
        with self._on_stream():
            for _ in range(3):
                run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(graph, stream=self.stream):
            result = run()

        def call() -> Tensor:
            graph.replay()
            return result

        return self._contender("eager_graph", call)


def _chain(modules: list[Any], inputs: list[Tensor]) -> Callable[[], Tensor]:
    def run() -> Tensor:
        result = modules[0](*inputs)
        for module in modules[1:]:
            result = module(result)
        return result

    return run


def _engine_module(blob: Blob) -> nn.Module:
    """Load the engine of a blob into Torch-TensorRT's own runtime."""
    from torch_tensorrt.dynamo import CompilationSettings
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    bindings = blob.metadata["io_bindings"]
    return TorchTensorRTModule(
        serialized_engine=blob.engine,
        input_binding_names=[binding["name"] for binding in bindings if binding["is_input"]],
        output_binding_names=[binding["name"] for binding in bindings if not binding["is_input"]],
        name=f"engine_{blob.digest[:8]}",
        settings=CompilationSettings(),
    )


def _relative_error(actual: Any, expected: Tensor) -> float:
    tensor = actual[0] if isinstance(actual, (list, tuple)) else actual
    a, b = tensor.double().cpu(), expected.double().cpu()
    return float((a - b).norm() / b.norm())
