"""Writes ``.pte`` programs whose delegates hold fake engines: ``python make_programs.py FOLDER``.

Each addition, multiplication and sum becomes an engine of its own; everything else stays on the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.dialects._ops import ops
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
from fake_engine import Tensor, blob_bytes, compiled_kernels, engine_bytes, operation

ADD, MUL, SUM = ops.edge.aten.add.Tensor, ops.edge.aten.mul.Tensor, ops.edge.aten.sum.dim_IntList


class TensorRTBackend(BackendDetails):
    """Turns a partition of one operator into a fake engine."""

    @staticmethod
    def preprocess(edge_program: torch.export.ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        nodes = edge_program.graph.nodes
        # What the exporter knows of a size never goes below 2.
        smallest = next((int(s.value) for s in compile_specs if s.key == "smallest_size"), 2)
        inputs = [_tensor(edge_program, n, is_input=True, smallest=smallest) for n in nodes if n.op == "placeholder"]
        (node,) = (n for n in nodes if n.op == "call_function")
        output = _tensor(edge_program, node, is_input=False)
        tensors = [*inputs, output]
        device = next((int(s.value.split(b":")[1]) for s in compile_specs if s.key == "target_device"), 0)
        engine = engine_bytes(tensors, [_operation(node, output.name)], weight_bytes=64, scratch_bytes=128)
        blob = blob_bytes(tensors, engine, device_id=device)
        if not any(spec.key == "with_kernels" for spec in compile_specs):
            return PreprocessResult(processed_bytes=blob)
        store = NamedDataStore()
        store.add_named_data(*compiled_kernels(engine))
        return PreprocessResult(processed_bytes=blob, data_store_output=store.get_named_data_store_output())


def _operation(node: torch.fx.Node, output: str) -> dict[str, Any]:
    inputs = [a.name for a in node.args if isinstance(a, torch.fx.Node)]  # scalars have become 0-D tensors
    return operation(output, {ADD: "linear", MUL: "multiply", SUM: "sum"}[node.target], inputs)


def _tensor(program: torch.export.ExportedProgram, node: torch.fx.Node, *, is_input: bool, smallest: int = 2) -> Tensor:
    value = node.meta["val"]
    shape = [size if isinstance(size, int) else -1 for size in value.shape]
    profile = None
    if is_input and -1 in shape:
        ends = [_range(program, size, smallest) for size in value.shape]
        low, high = [end[0] for end in ends], [end[1] for end in ends]
        profile = (low, high, high)
    return Tensor(node.name, is_input, str(value.dtype).removeprefix("torch."), shape, profile)


def _range(program: torch.export.ExportedProgram, size: int | torch.SymInt, smallest: int) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    limits = program.range_constraints[size.node.expr]
    return min(int(limits.lower), smallest), int(limits.upper)


class FakePartitioner(Partitioner):
    """One partition per supported operator."""

    def __init__(
        self, *, device: str | None = "cuda:0", with_kernels: bool = False, smallest_size: int | None = None
    ) -> None:
        specs = [] if device is None else [CompileSpec("target_device", device.encode())]
        specs += [CompileSpec("with_kernels", b"")] if with_kernels else []
        specs += [] if smallest_size is None else [CompileSpec("smallest_size", str(smallest_size).encode())]
        self._delegation = DelegationSpec("TensorRTBackend", specs)

    def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
        tags = {}
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and node.target in (ADD, MUL, SUM):
                node.meta["delegation_tag"] = f"engine_{len(tags)}"
                tags[node.meta["delegation_tag"]] = self._delegation
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


class Model(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def _export(function: Callable[..., Any], *inputs: torch.Tensor, dynamic: Any = None) -> torch.export.ExportedProgram:
    return torch.export.export(Model(function), inputs, dynamic_shapes=None if dynamic is None else (dynamic,))


def _write(
    path: Path, programs: Any, *, results_on_gpu: bool = False, copied_inputs: bool = True, **options: Any
) -> None:
    edge = to_edge_transform_and_lower(programs, partitioner=[FakePartitioner(**options)])
    devices = PropagateDeviceConfig(skip_d2h_for_method_outputs=results_on_gpu)
    planning = MemoryPlanningPass(alloc_graph_input=copied_inputs)
    config = ExecutorchBackendConfig(propagate_device_config=devices, memory_planning_pass=planning)
    path.write_bytes(edge.to_executorch(config).buffer)


def _layouts() -> dict[str, torch.Tensor]:
    image, volume = torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 2, 4, 5)
    return {
        "plain": image,
        "channels_last": image.to(memory_format=torch.channels_last),
        "channels_last_3d": volume.to(memory_format=torch.channels_last_3d),
        "transposed": torch.zeros(5, 4).t(),
        "one_channel": torch.zeros(2, 1, 4, 5),
    }


def _default_layout_times_three(x: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format) * 3


def _one_value_twice(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x + 1
    return y, x, y


def main() -> None:
    """Write every program."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    x = torch.zeros(2, 3)
    rows = torch.export.Dim("rows", min=2, max=8)
    _write(folder / "add_one.pte", _export(lambda x: x + 1, x))
    _write(folder / "host_only.pte", _export(lambda x: x + 1, x), device=None)
    _write(folder / "with_kernels.pte", _export(lambda x: (x * 2) + 1, x), with_kernels=True)
    _write(folder / "second_gpu.pte", _export(lambda x: x + 1, x), device="cuda:1")
    _write(folder / "missing_gpu.pte", _export(lambda x: x + 1, x), device="cuda:7")
    _write(folder / "results_on_gpu.pte", _export(lambda x: x + 1, x), results_on_gpu=True)
    _write(folder / "results_on_second_gpu.pte", _export(lambda x: x + 1, x), results_on_gpu=True, device="cuda:1")
    _write(folder / "chain.pte", _export(lambda x: ((x * 2) + 1) * 3, x))
    _write(folder / "around_cpu.pte", _export(lambda x: torch.sin(x * 2) + 1, x))
    _write(folder / "dynamic.pte", _export(lambda x: (x * 2) + 1, torch.zeros(4, 3), dynamic=({0: rows},)))
    some, pair = {0: rows}, (torch.zeros(4, 3), torch.zeros(4, 3))
    y = torch.zeros(2, 3)
    _write(folder / "one_call.pte", _export(lambda x, y: x + y, x, y), device=None, copied_inputs=False)
    _write(folder / "one_call_copied.pte", _export(lambda x, y: x + y, x, y), device=None)
    _write(
        folder / "one_call_each.pte",
        {"forward": _export(lambda x, y: x + y, x, y), "product": _export(lambda x, y: x * y, x, y)},
        device=None,
        copied_inputs=False,
    )
    _write(
        folder / "one_call_dynamic.pte",
        _export(lambda x, y: x + y, *pair, dynamic=(some, some)),
        device=None,
        copied_inputs=False,
    )
    any_rows = torch.export.Dim("rows", min=0, max=8)
    _write(
        folder / "maybe_empty.pte",
        _export(lambda x, y: (x + 1, y * 2), torch.zeros(3, 4), torch.zeros(2), dynamic=({0: any_rows}, None)),
        smallest_size=0,
    )
    _write(folder / "scalar_between.pte", _export(lambda x: x.sum() * 2 + 1, x))
    _write(folder / "one_value_twice.pte", _export(_one_value_twice, x))
    _write(folder / "selected.pte", _export(lambda x: ((x * 2)[x > 0], torch.nonzero(x + 1)), torch.zeros(6)))
    _write(folder / "mixed.pte", _export(lambda x, n: (x + 1, n + n, x.sum()), x, torch.zeros(2, dtype=torch.int64)))
    _write(folder / "cpu_only.pte", _export(torch.sin, torch.zeros(2, 3, 4, 5)))
    for name, y in _layouts().items():
        _write(folder / f"layout_{name}.pte", _export(_default_layout_times_three, y))
    _write(
        folder / "layouts_by_method.pte",
        {name: _export(_default_layout_times_three, y) for name, y in _layouts().items()},
    )
    _write(
        folder / "two_methods.pte",
        {"forward": _export(lambda x: x + 1, x), "double": _export(lambda x: x * 2, torch.zeros(4))},
    )


if __name__ == "__main__":
    main()
