"""Memory plans that are right for delegates on a GPU."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from torch.utils import _pytree as pytree

from torch_tensorrt_executorch_runtime._errors import ExportError, kind_of

__all__ = ["TENSOR_ALIGNMENT", "DeviceSafeMemoryPlanningPass", "device_safe_config", "of_method"]

# TensorRT asks for addresses at multiples of 256; ExecuTorch aligns to 16 unless told otherwise.
TENSOR_ALIGNMENT = 256


class DeviceSafeMemoryPlanningPass(MemoryPlanningPass):  # type: ignore[misc]
    """Plans memory as the given pass does, after mending what ExecuTorch 1.5 gets wrong around device copies.

    * A method output that a delegate computes and the runtime copies to the host is taken for the delegate's own
      output. With ``alloc_graph_output=False`` the delegate's memory then stays unplanned.
    * The device copy of a constant is still marked as constant, although it has no data in the file.

    Args:
        inner: The pass that does the planning. It is copied, so that one pass object can serve several exports.
            Without one, inputs that only engines read are left to the caller, which saves a copy of each; all others
            are planned, so that a tensor on the wrong side of the bus is refused.
    """

    def __init__(self, inner: Any = None) -> None:
        super().__init__(alignment=TENSOR_ALIGNMENT)
        self._chooses = inner is None
        self._inner = MemoryPlanningPass(alignment=TENSOR_ALIGNMENT) if inner is None else copy.deepcopy(inner)
        if isinstance(getattr(self._inner, "alignment", None), int):
            self._inner.alignment = max(self._inner.alignment, TENSOR_ALIGNMENT)
        for name in ("alloc_graph_input", "alloc_graph_output", "alloc_mutable_buffers", "share_mutable_buffers"):
            setattr(self, name, getattr(self._inner, name, getattr(self, name)))

    def run(self, graph_module: torch.fx.GraphModule, graph_signature: Any = None) -> Any:
        """Mend the graph's specifications, then plan."""
        if self._chooses:
            self._inner.alloc_graph_input = self.alloc_graph_input = not _only_engines_read(graph_module)
        for node in graph_module.graph.nodes:
            if _is_device_copy(node):
                _forget_constant(node)
            elif node.op == "output":
                node.meta["spec"] = pytree.tree_map_only(
                    torch.fx.Node, lambda value: value.meta.get("spec"), node.args[0]
                )
        if not hasattr(self._inner, "run"):
            return self._inner(graph_module)
        if hasattr(self._inner, "enable_non_cpu_memory_planning"):
            self._inner.enable_non_cpu_memory_planning = self.enable_non_cpu_memory_planning
        return self._inner.run(graph_module, graph_signature)

    def run_multimethod(self) -> None:
        """Finish what concerns several methods at once."""
        if hasattr(self._inner, "run_multimethod"):
            self._inner.run_multimethod()


def device_safe_config(config: ExecutorchBackendConfig | None, methods: tuple[str, ...]) -> ExecutorchBackendConfig:
    """Return a configuration for ``to_executorch`` with device-safe memory planning; the given one is not changed.

    Without one, memory is planned as by ``DeviceSafeMemoryPlanningPass()``.

    Raises:
        ExportError: The settings contradict each other, or name a method that the program does not have.
    """
    config = _default_config() if config is None else config
    if not isinstance(config, ExecutorchBackendConfig):
        raise TypeError(f"backend_config is {kind_of(config)}, but an ExecutorchBackendConfig is expected.")
    for option in ("memory_planning_pass", "propagate_device_config"):
        _check_methods(option, getattr(config, option), methods)
    _check_skips(config, methods)
    if not config.enable_non_cpu_memory_planning:
        raise ExportError(
            "enable_non_cpu_memory_planning is False, so no device memory would be planned, but engines need it. "
            "Leave it at True."
        )
    planning: Any = config.memory_planning_pass
    if isinstance(planning, Mapping):
        safe: Any = {name: DeviceSafeMemoryPlanningPass(planning.get(name)) for name in methods}
    else:
        safe = copy.deepcopy(planning) if isinstance(planning, DeviceSafeMemoryPlanningPass) else planning
        safe = safe if isinstance(safe, DeviceSafeMemoryPlanningPass) else DeviceSafeMemoryPlanningPass(safe)
    return dataclasses.replace(config, memory_planning_pass=safe)


def _default_config() -> ExecutorchBackendConfig:
    return ExecutorchBackendConfig(memory_planning_pass=DeviceSafeMemoryPlanningPass())


def _check_methods(option: str, value: Any, methods: tuple[str, ...]) -> None:
    unknown = sorted(set(value) - set(methods)) if isinstance(value, Mapping) else []
    if unknown:
        raise ExportError(f"backend_config.{option} names {unknown}, but the methods are {list(methods)}.")


def _check_skips(config: ExecutorchBackendConfig, methods: tuple[str, ...]) -> None:
    for name in methods:
        device = of_method(config.propagate_device_config, name)
        skips = [flag for flag in _SKIPS if getattr(device, flag, False)]
        for flag in skips:
            if isinstance(getattr(device, flag), Mapping):
                raise ExportError(
                    f"PropagateDeviceConfig.{flag} is a dict, which ExecuTorch 1.5 takes as True for every method. "
                    f"Give propagate_device_config={{{name!r}: PropagateDeviceConfig({flag}=True)}} instead."
                )
        if skips and not config.enable_non_cpu_memory_planning:
            raise ExportError(
                f"{skips[0]} is set, but enable_non_cpu_memory_planning is False: the copies that it leaves out are "
                "made by device memory planning. Set enable_non_cpu_memory_planning=True."
            )
        planning = of_method(config.memory_planning_pass, name)
        if "skip_h2d_for_method_inputs" in skips and getattr(planning, "alloc_graph_input", False):
            raise ExportError(
                f"Method {name!r}: skip_h2d_for_method_inputs is set, but the inputs are planned, so that ExecuTorch "
                "would copy the caller's GPU memory with the CPU. Add memory_planning_pass="
                "MemoryPlanningPass(alloc_graph_input=False)."
            )


_SKIPS = ("skip_h2d_for_method_inputs", "skip_d2h_for_method_outputs")


def of_method(value: Any, name: str) -> Any:
    """Return a method's own part of a setting that may be given for each method or for all."""
    return value.get(name) if isinstance(value, Mapping) else value


def _only_engines_read(graph_module: torch.fx.GraphModule) -> bool:
    return all(
        _is_device_copy(user) or user.target is torch.ops.higher_order.executorch_call_delegate
        for node in graph_module.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
        for user in node.users
    )


def _is_device_copy(node: torch.fx.Node) -> bool:
    copies = (torch.ops.et_copy._h2d_copy.out, torch.ops.et_copy._d2h_copy.out)
    return node.op == "call_function" and node.target in copies


def _forget_constant(node: torch.fx.Node) -> None:
    for spec in _specs(node):
        if spec.const:
            spec.const = False
            spec.storage = None


def _specs(node: torch.fx.Node) -> Iterator[Any]:
    for value in (node, node.kwargs.get("out")):
        spec = value.meta.get("spec") if isinstance(value, torch.fx.Node) else None
        if spec is not None:
            yield spec
