"""``trt-executorch bench`` on the GPU: a program with host tensors and one whose tensors stay on the device."""

from __future__ import annotations

import json
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest
import torch

from support.process import command

from .results import Recorder

pytestmark = pytest.mark.gpu

CALLS = 200
SIDES = ("host", "device")


def write(side: str, path: Path) -> None:
    """Write a small program whose tensors cross its boundary on the given side."""
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

    from torch_tensorrt_executorch_runtime.export import save

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).eval()
    options: dict[str, Any] = {}
    if side == "device":
        options["backend_config"] = ExecutorchBackendConfig(
            propagate_device_config=PropagateDeviceConfig(
                skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True
            ),
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False),
        )
    save(model, path, arg_inputs=(torch.zeros(16, 256),), **options)


def measured(program: Path, *options: str) -> dict[str, Any]:
    picture = program.with_suffix(".svg")
    result = command(
        "bench",
        program,
        "--calls",
        str(CALLS),
        "--histogram",
        picture,
        "--json",
        program.with_suffix(".json"),
        *options,
    )
    assert result.code == 0, result.err
    assert "measured in turns in this run" in result.out
    xml.etree.ElementTree.parse(picture)
    document: dict[str, Any] = json.loads(program.with_suffix(".json").read_text())
    return document


@pytest.mark.parametrize("side", SIDES)
def test_a_program_is_measured_beside_its_bare_engine(side: str, tmp_path: Path, recorder: Recorder) -> None:
    program = tmp_path / f"{side}.pte"
    write(side, program)
    for option in ("--no-cuda-graphs", "--cuda-graphs"):
        result = measured(program, option)
        (engine,) = result["engines"]
        assert engine["calls"] == result["method_calls"]
        assert engine["plain_calls"] + engine["replayed_calls"] == engine["calls"]
        expected = {"delegate", "bare_enqueue", "bare_graph"} | ({"delegate_uncloned"} if side == "device" else set())
        assert set(result["latency_us"]) == expected
        assert all(latency["calls"] == CALLS for latency in result["latency_us"].values())
        if side == "device":
            assert engine["staged_inputs"] == engine["staged_outputs"] == engine["copied_bytes"] == 0
        graphs = option == "--cuda-graphs"
        assert result["ratio"]["compared_with"] == ("bare_graph" if graphs else "bare_enqueue")
        if not graphs:
            assert engine["replayed_calls"] == 0
        assert result["ratio"]["like_with_like"] > 0
        assert result["memory_bytes"]["weights"] > 0
        recorder.note(
            "bench",
            **{
                f"{side}.{'graphs' if graphs else 'plain'}": {
                    "p50_us": {name: latency["p50"] for name, latency in result["latency_us"].items()},
                    "ratio": result["ratio"],
                    "calls_per_second": result["calls_per_second"],
                }
            },
        )


def test_graphs_on_the_device_are_replayed(tmp_path: Path) -> None:
    program = tmp_path / "device.pte"
    write("device", program)
    (engine,) = measured(program, "--cuda-graphs")["engines"]
    assert engine["replayed_calls"] > engine["plain_calls"], engine["fallbacks"]
