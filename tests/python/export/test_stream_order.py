"""An engine's results are waited for unless copies and other engines alone read them."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.dialects._ops import ops
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
from export_helpers import One, lower_model
from torch import nn

from torch_tensorrt_executorch_runtime.export import device_safe_config
from torch_tensorrt_executorch_runtime.export._stream_order import mark_results_in_stream_order

X = torch.rand(4, 8)
ON_DEVICE = ExecutorchBackendConfig(
    propagate_device_config=PropagateDeviceConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True),
    memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False),
)


def marks(module, *, config=None, **options):
    """Tell of every engine whether it is marked, in the order of their calls."""
    result = lower_model(module, X, **options)
    mark_results_in_stream_order(result.lowered.manager, device_safe_config(config, ("forward",)), ("forward",))
    engines = [delegate for delegate in result.delegates if delegate.backend_id == "TensorRTBackend"]
    specs = [{spec.key: bytes(spec.value) for spec in engine.compile_specs} for engine in engines]
    return [spec.get("results_in_stream_order") for spec in specs]


class OtherBackend(BackendDetails):
    """Takes whatever its partitioner gives it."""

    @staticmethod
    def preprocess(edge_program, compile_specs):
        return PreprocessResult(processed_bytes=b"nothing")


class TanhPartitioner(Partitioner):
    """Gives every tanh to the other backend."""

    def partition(self, exported_program):
        tags = {}
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and node.target == ops.edge.aten.tanh.default:
                node.meta["delegation_tag"] = f"other_{len(tags)}"
                tags[node.meta["delegation_tag"]] = DelegationSpec("OtherBackend", [])
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


@pytest.mark.parametrize(
    ("module", "config", "expected"),
    [
        pytest.param(nn.Linear(8, 4), None, [b"1"], id="results_copied_to_the_host"),
        pytest.param(nn.Linear(8, 4), ON_DEVICE, [None], id="results_left_on_the_gpu"),
        pytest.param(
            One(lambda x: torch.erfinv(x.tanh()).cos()),
            None,
            [b"1", b"1"],
            id="results_of_which_an_operator_reads_a_copy",
        ),
        pytest.param(
            One(lambda x: torch.erfinv(x.tanh()).cos()),
            ON_DEVICE,
            [b"1", None],
            id="the_last_of_two_engines_leaves_them",
        ),
        pytest.param(One(lambda x: (x * 2, x.tanh())), ON_DEVICE, [None], id="two_results"),
    ],
)
def test_marks_engines_by_who_reads_their_results(module, config, expected):
    assert marks(module.eval(), config=config) == expected


def test_another_backend_finds_the_results_there():
    module = One(lambda x: torch.tanh(x.cos()).sin())

    marked = marks(module, partitioners=[TanhPartitioner()], torch_executed_ops=["aten.tanh"])

    assert marked == [None, b"1"], "the other backend's work need not be on the same stream"
