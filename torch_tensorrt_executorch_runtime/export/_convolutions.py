"""Convolutions as Torch-TensorRT's passes leave them: PyTorch's operator, and one of their own with padding inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Convolution", "padded_convolution", "read_convolution"]

_aten = torch.ops.aten


@dataclass(frozen=True)
class Convolution:
    """How a convolution steps, with one number for each dimension of the image; ``before`` is the padding there."""

    stride: tuple[int, ...]
    before: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


def padded_convolution() -> Any:
    """Return Torch-TensorRT's operator; None when its passes, which define it, are not imported."""
    packet = getattr(torch.ops.tensorrt, "conv_asym_pad", None)
    return None if packet is None else packet.default


def read_convolution(node: Any) -> Convolution | None:
    """Return how a node's convolution steps; None where it is no convolution, or a transposed one."""
    if not isinstance(node, torch.fx.Node) or node.op != "call_function":
        return None
    if node.target is _aten.convolution.default and not node.args[6]:
        stride, before, dilation, groups = (node.args[index] for index in (3, 4, 5, 8))
    elif node.target is padded_convolution():
        stride, before, dilation, groups = (node.args[index] for index in (3, 4, 6, 7))
    else:
        return None
    pairs: Any = (stride, before, dilation)
    count: Any = groups
    stride, before, dilation = (tuple(numbers) for numbers in pairs)
    return Convolution(stride, before, dilation, count)
