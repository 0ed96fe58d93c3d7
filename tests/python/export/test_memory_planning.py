"""Programs are planned for the GPU, initial values included, and contradictory settings are refused."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.capture._config import EdgeCompileConfig
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
from executorch.exir.schema import DeviceType
from export_helpers import One, Two, lower_model
from torch import nn

from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export import DeviceSafeMemoryPlanningPass, device_safe_config, save

X = torch.rand(4, 8)
SKIP_INPUTS = PropagateDeviceConfig(skip_h2d_for_method_inputs=True)
SKIP_BOTH = PropagateDeviceConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True)
UNPLANNED_INPUTS = MemoryPlanningPass(alloc_graph_input=False)


def planned(module, *inputs, config=None, **options):
    """Return the plan of the only method."""
    manager = lower_model(module, *inputs, **options).lowered.manager
    program = manager.to_executorch(config=device_safe_config(config, ("forward",)))
    return program.executorch_program.execution_plan[0]


def tensors(plan):
    return [value.val for value in plan.values if type(value.val).__name__ == "Tensor"]


def device_of(tensor):
    return tensor.extra_tensor_info.device_type if tensor.extra_tensor_info else DeviceType.CPU


def operators(plan):
    return [operator.name for operator in plan.operators]


def test_copies_host_tensors_to_the_engine_and_back():
    plan = planned(nn.Linear(8, 4).eval(), X)

    assert operators(plan) == ["et_copy::_h2d_copy", "et_copy::_d2h_copy"]


def is_planned(plan):
    return plan.values[plan.inputs[0]].val.allocation_info is not None


def test_reads_the_callers_inputs_where_only_engines_do():
    assert not is_planned(planned(nn.Linear(8, 4).eval(), X))
    assert is_planned(planned(nn.Linear(8, 4).eval(), X, config=ExecutorchBackendConfig()))


def test_plans_inputs_that_operators_outside_of_the_engines_read():
    plan = planned(One(lambda x: torch.cos(torch.erfinv(x))), X)

    assert "aten::erfinv" in operators(plan)
    assert is_planned(plan)


def test_aligns_device_tensors_to_256():
    plan = planned(Two(lambda x, y: (x.sin() + y.cos(), x * 2)), torch.rand(3), torch.rand(3))

    offsets = {
        tensor.allocation_info.memory_offset_low
        for tensor in tensors(plan)
        if tensor.allocation_info and device_of(tensor) == DeviceType.CUDA
    }
    assert len(offsets) > 1
    assert all(offset % 256 == 0 for offset in offsets)


def test_a_larger_alignment_is_kept():
    safe = device_safe_config(ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(alignment=512)), ("f",))

    assert safe.memory_planning_pass._inner.alignment == 512


def test_outputs_in_the_callers_memory_leave_the_delegates_output_planned():
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(alloc_graph_output=False))

    plan = planned(nn.Linear(8, 4).eval(), X, config=config)

    (output,) = (plan.values[index].val for index in plan.outputs)
    assert device_of(output) == DeviceType.CPU
    assert output.allocation_info is None
    device = [tensor for tensor in tensors(plan) if device_of(tensor) == DeviceType.CUDA]
    assert len(device) == 2
    assert all(tensor.allocation_info is not None for tensor in device)


def test_a_constant_that_is_not_in_an_engine_can_be_copied_to_one():
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.rand(8))

        def forward(self, x):
            return torch.erfinv(self.scale) + x.sin() * self.scale

    plan = planned(Shared(), X)

    assert "aten::erfinv" in operators(plan)


def test_device_resident_inputs_and_outputs_need_no_copy():
    config = ExecutorchBackendConfig(propagate_device_config=SKIP_BOTH, memory_planning_pass=UNPLANNED_INPUTS)

    plan = planned(nn.Linear(8, 4).eval(), X, config=config)

    assert operators(plan) == []
    (value,) = (plan.values[index].val for index in plan.inputs)
    assert device_of(value) == DeviceType.CUDA
    assert value.allocation_info is None


def test_a_pass_per_method_is_kept():
    source = {name: torch.export.export(nn.Linear(8, 4).eval(), (X,)) for name in ("a", "b")}
    manager = lower_model(source).lowered.manager
    config = ExecutorchBackendConfig(
        propagate_device_config={"a": SKIP_BOTH}, memory_planning_pass={"a": UNPLANNED_INPUTS}
    )

    program = manager.to_executorch(config=device_safe_config(config, ("a", "b")))

    copies = {plan.name: operators(plan) for plan in program.executorch_program.execution_plan}
    assert copies == {"a": [], "b": ["et_copy::_h2d_copy", "et_copy::_d2h_copy"]}


def test_the_given_configuration_serves_several_exports():
    planning = MemoryPlanningPass()
    config = ExecutorchBackendConfig(memory_planning_pass=planning)

    small = planned(nn.Linear(8, 4).eval(), X, config=config)
    large = planned(nn.Linear(800, 400).eval(), torch.rand(40, 800), config=config)

    assert config.memory_planning_pass is planning
    assert planning.alignment == MemoryPlanningPass().alignment
    assert sum(large.non_const_buffer_sizes) > sum(small.non_const_buffer_sizes)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            ExecutorchBackendConfig(propagate_device_config=SKIP_INPUTS, enable_non_cpu_memory_planning=False),
            "skip_h2d_for_method_inputs is set, but enable_non_cpu_memory_planning is False: .* Set enable_non_cpu",
        ),
        (
            ExecutorchBackendConfig(propagate_device_config=SKIP_INPUTS),
            r"'forward': skip_h2d_for_method_inputs is set, but the inputs are planned, .* Add memory_planning_pass=",
        ),
        (
            ExecutorchBackendConfig(enable_non_cpu_memory_planning=False),
            "enable_non_cpu_memory_planning is False, so no device memory would be planned",
        ),
        (
            ExecutorchBackendConfig(
                propagate_device_config=PropagateDeviceConfig(skip_h2d_for_method_inputs={"other": True})
            ),
            "skip_h2d_for_method_inputs is a dict, which ExecuTorch 1.5 takes as True for every method",
        ),
        (
            ExecutorchBackendConfig(propagate_device_config={"other": SKIP_INPUTS}),
            r"backend_config.propagate_device_config names \['other'\], but the methods are \['forward'\]",
        ),
        (
            ExecutorchBackendConfig(memory_planning_pass={"other": MemoryPlanningPass()}),
            r"backend_config.memory_planning_pass names \['other'\]",
        ),
    ],
)
def test_refuses_settings_that_contradict_each_other(config, text):
    with pytest.raises(ExportError, match=text):
        device_safe_config(config, ("forward",))


def test_refuses_another_configuration_object():
    with pytest.raises(TypeError, match="backend_config is a dict, but an ExecutorchBackendConfig is expected"):
        device_safe_config({}, ("forward",))


def test_says_how_to_fix_a_device_input_with_two_users(tmp_path):
    config = ExecutorchBackendConfig(propagate_device_config=SKIP_INPUTS, memory_planning_pass=UNPLANNED_INPUTS)

    with pytest.raises(
        ExportError, match=r"exactly one user.*[^.]\. Leave skip_h2d_for_method_inputs out for this method"
    ):
        save(
            One(lambda x: torch.erfinv(x.tanh()).cos() + x),
            tmp_path / "model.pte",
            arg_inputs=(X,),
            backend_config=config,
        )


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((3,), 5.0))

    def forward(self, x):
        self.total.add_(torch.sinh(x))
        return self.total * 1


def test_buffers_start_with_the_value_that_they_had(tmp_path):
    from executorch.runtime import Runtime

    path = tmp_path / "model.pte"
    save(
        Counter(),
        path,
        arg_inputs=(torch.rand(3),),
        torch_executed_ops=["aten.add", "aten.mul", "aten.sinh"],
        require_engine=False,
    )

    method = Runtime.get().load_program(path).load_method("forward")
    zeros = torch.zeros(3)
    assert method.execute([zeros])[0].tolist() == [5.0, 5.0, 5.0]
    x = torch.full((3,), 0.5)
    first = method.execute([x])[0].clone()
    torch.testing.assert_close(first, 5 + torch.sinh(x))
    torch.testing.assert_close(method.execute([x])[0], 5 + 2 * torch.sinh(x))


def test_the_pass_serves_programs_without_a_delegate():
    manager = to_edge_transform_and_lower(
        torch.export.export(nn.Linear(8, 4).eval(), (X,)), compile_config=EdgeCompileConfig()
    )

    manager.to_executorch(ExecutorchBackendConfig(memory_planning_pass=DeviceSafeMemoryPlanningPass()))
