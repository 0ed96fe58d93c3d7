"""Writes the programs that the tests read, in a process of its own: the export brings torch and TensorRT.

``engine.pte`` has one engine and nothing else, ``dynamic.pte`` the same with a dynamic size, ``outside.pte`` two
engines with an operator between them, ``plain.pte`` no engine; ``facts.json`` is what ExecuTorch's own reader says.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION"] = "1"

import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary

from torch_tensorrt_executorch_runtime.export import save


class Outside(torch.nn.Module):
    """TensorRT takes the ends, and not the middle."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(torch.erfinv(torch.tanh(x)))


class Plain(torch.nn.Module):
    """For ExecuTorch's own kernels: two inputs, outputs of two types, a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(x) + y, y.to(torch.int64)


def write_plain(path: Path) -> None:
    torch.manual_seed(0)
    program = torch.export.export(Plain().eval(), (torch.ones(2, 16), torch.ones(2, 8)))
    path.write_bytes(to_edge_transform_and_lower(program).to_executorch().buffer)


def write_facts(folder: Path) -> None:
    """Write what ExecuTorch's own reader says of each program."""
    facts = {}
    for path in folder.glob("*.pte"):
        plan = deserialize_pte_binary(path.read_bytes()).program.execution_plan[0]
        facts[path.name] = {
            "name": plan.name,
            "inputs": [list(plan.values[index].val.sizes) for index in plan.inputs],
            "outputs": [list(plan.values[index].val.sizes) for index in plan.outputs],
            "operators": [f"{item.name}.{item.overload}" for item in plan.operators],
            "delegates": [[item.id, [spec.key for spec in item.compile_specs]] for item in plan.delegates],
            "memory": list(plan.non_const_buffer_sizes[1:]),
        }
    (folder / "facts.json").write_text(json.dumps(facts))


def main(folder: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    net = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU()).eval()
    torch.manual_seed(0)
    save(Outside().eval(), folder / "outside.pte", arg_inputs=(torch.ones(4, 128),))
    save(net, folder / "engine.pte", arg_inputs=(torch.ones(2, 16),))
    save(net, folder / "dynamic.pte", arg_inputs=(torch.ones(4, 16),), dynamic_shapes=({0: batch},))
    write_plain(folder / "plain.pte")
    write_facts(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
