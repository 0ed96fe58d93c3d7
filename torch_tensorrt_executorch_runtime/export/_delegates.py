"""Reads the delegates that a lowered graph calls."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.passes.propagate_device_pass import TARGET_DEVICE_COMPILE_SPEC_KEY

__all__ = ["called_delegate", "target_device"]


def called_delegate(module: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    """Return the lowered module that a node calls; None when it calls no delegate."""
    if node.target is not torch.ops.higher_order.executorch_call_delegate:
        return None
    attribute: Any = node.args[0]
    return getattr(module, str(attribute.target))


def target_device(delegate: Any) -> str:
    """Return the device that a delegate was lowered for, such as ``cuda:0``; empty when it names none."""
    specs = {spec.key: bytes(spec.value) for spec in delegate.compile_specs}
    return specs.get(TARGET_DEVICE_COMPILE_SPEC_KEY, b"").decode(errors="replace").strip().lower()
