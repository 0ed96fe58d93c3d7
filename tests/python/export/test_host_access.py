"""A program that would let an operator on the CPU at GPU memory is refused, and says what to change."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
from export_helpers import One, Two, read_pte
from torch import nn

from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export import save

IMAGE = torch.rand(1, 3, 8, 16)
CHANNELS_LAST = IMAGE.to(memory_format=torch.channels_last)
SKIP_INPUTS = PropagateDeviceConfig(skip_h2d_for_method_inputs=True)
SKIP_OUTPUTS = PropagateDeviceConfig(skip_d2h_for_method_outputs=True)
SKIP_BOTH = PropagateDeviceConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True)


def config(skips):
    return ExecutorchBackendConfig(
        propagate_device_config=skips, memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False)
    )


def refusal(source, *inputs, skips, path, **options):
    arguments = {"arg_inputs": inputs} if inputs else {}
    with pytest.raises(ExportError) as error:
        save(source, path / "model.pte", backend_config=config(skips), **arguments, **options)
    assert list(path.iterdir()) == []
    return str(error.value)


def also_read_outside(x):
    y = x.tanh()
    return y, torch.erfinv(y).cos()


OUTSIDE = {"torch_executed_ops": ["aten.erfinv"]}

REFUSED = {
    "channels_last": (
        lambda x: x * 2,
        (CHANNELS_LAST,),
        SKIP_BOTH,
        "Method 'forward': operator dim_order_ops._clone_dim_order runs on the CPU and reads input 'x', which "
        "skip_h2d_for_method_inputs leaves in GPU memory. Give a contiguous example input, or leave "
        "skip_h2d_for_method_inputs out for this method.",
    ),
    "transposed": (
        lambda x: x * 2,
        (torch.rand(4, 3).t(),),
        SKIP_INPUTS,
        "reads input 'x', which skip_h2d_for_method_inputs leaves in GPU memory. Give a contiguous example input",
    ),
    "first_operator": (
        lambda x: torch.erfinv(x).cos(),
        (IMAGE,),
        SKIP_BOTH,
        "Method 'forward': operator aten.erfinv runs on the CPU and reads input 'x', which skip_h2d_for_method_inputs "
        "leaves in GPU memory. Leave skip_h2d_for_method_inputs out for this method, or add a partitioner that takes "
        "the operator.",
    ),
    "last_operator": (
        lambda x: torch.erfinv(x.tanh()),
        (IMAGE,),
        SKIP_BOTH,
        "Method 'forward': operator aten.erfinv runs on the CPU and writes output 0, which skip_d2h_for_method_outputs "
        "leaves in GPU memory. Leave skip_d2h_for_method_outputs out for this method, or add a partitioner that takes "
        "the operator.",
    ),
    "one_of_several_outputs": (
        lambda x: (x * 2, torch.erfinv(x.tanh())),
        (IMAGE,),
        SKIP_OUTPUTS,
        "operator aten.erfinv runs on the CPU and writes output 1, which skip_d2h_for_method_outputs leaves",
    ),
    "reader_of_an_output": (
        also_read_outside,
        (IMAGE,),
        SKIP_OUTPUTS,
        "operator aten.erfinv runs on the CPU and reads output 0, which skip_d2h_for_method_outputs leaves",
    ),
    "view_of_an_input": (
        lambda x: torch.erfinv(x.view(3, -1)).cos(),
        (IMAGE,),
        SKIP_INPUTS,
        "operator aten.erfinv runs on the CPU and reads input 'x', which skip_h2d_for_method_inputs leaves",
    ),
    "copy_of_a_view": (
        lambda x: x.view(3, -1) * 2,
        (IMAGE,),
        SKIP_INPUTS,
        "operator et_copy._h2d_copy runs on the CPU and reads input 'x', which skip_h2d_for_method_inputs leaves",
    ),
    "another_shape": (
        lambda x: x.unsqueeze(0) * 2,
        (IMAGE,),
        SKIP_INPUTS,
        "operator aten.unsqueeze_copy runs on the CPU and reads input 'x', which skip_h2d_for_method_inputs leaves",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name, tmp_path):
    function, inputs, skips, text = REFUSED[name]
    options = {"torch_executed_ops": ["aten.erfinv", "aten.unsqueeze", "aten.view"]}

    assert text in refusal(One(function), *inputs, skips=skips, path=tmp_path, **options)


def test_names_the_input_of_several(tmp_path):
    text = refusal(
        Two(lambda x, y: (x * 2, torch.erfinv(y).cos())), IMAGE, IMAGE, skips=SKIP_INPUTS, path=tmp_path, **OUTSIDE
    )

    assert "operator aten.erfinv runs on the CPU and reads input 'y'" in text


def test_looks_at_every_method(tmp_path):
    source = {
        "good": torch.export.export(One(lambda x: x * 2), (IMAGE,)),
        "bad": torch.export.export(One(lambda x: torch.erfinv(x).cos()), (IMAGE,)),
    }

    assert "Method 'bad': operator aten.erfinv" in refusal(source, skips=SKIP_BOTH, path=tmp_path, **OUTSIDE)
    save(source, tmp_path / "model.pte", backend_config=config({"good": SKIP_BOTH}), **OUTSIDE)
    assert len(read_pte(tmp_path / "model.pte").methods) == 2


def test_another_backend_on_the_cpu_counts_as_an_operator(tmp_path):
    xnnpack = pytest.importorskip("executorch.backends.xnnpack.partition.xnnpack_partitioner")

    text = refusal(
        nn.Sequential(nn.Linear(16, 4), nn.Tanh()).eval(),
        IMAGE,
        skips=SKIP_INPUTS,
        path=tmp_path,
        torch_executed_ops=["aten.linear", "aten.addmm"],
        partitioners=[xnnpack.XnnpackPartitioner()],
    )

    assert "Method 'forward': the delegate XnnpackBackend runs on the CPU and reads input" in text


@pytest.mark.parametrize(
    ("function", "skips"),
    [
        (lambda x: torch.erfinv(x.tanh()).cos(), SKIP_BOTH),  # in the middle
        (lambda x: torch.erfinv(x).cos(), SKIP_OUTPUTS),
        (lambda x: torch.erfinv(x.tanh()), SKIP_INPUTS),
        (lambda x: (x * 2, x.sum()), SKIP_BOTH),
    ],
)
def test_leaves_operators_alone_that_meet_copies_only(function, skips, tmp_path):
    save(One(function), tmp_path / "model.pte", arg_inputs=(IMAGE,), backend_config=config(skips), **OUTSIDE)


def test_channels_last_inputs_on_the_host_are_exported(tmp_path):
    save(One(lambda x: x * 2), tmp_path / "model.pte", arg_inputs=(CHANNELS_LAST,), backend_config=config(SKIP_OUTPUTS))

    operators = dict(read_pte(tmp_path / "model.pte").methods[0].operators)
    assert "dim_order_ops::_clone_dim_order.out" in operators
