"""Gives attention its scale and its mask as TensorRT-RTX takes them best.

Without a scale, the converter divides the queries by a root that the engine computes; TensorRT-RTX multiplies faster,
in the kernel that views the heads. A mask is repeated for batches and heads by attention itself; TensorRT-RTX 1.6
fails to build where the engine does that before, for a batch that changes.
"""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["suit_attention"]

_aten = torch.ops.aten
_MASK = 3


def suit_attention(module: torch.fx.GraphModule) -> None:
    """Set, in place, the scale that PyTorch takes where none is given, and leave out what repeats masks."""
    for node in module.graph.find_nodes(op="call_function", target=_aten.scaled_dot_product_attention.default):
        _set_scale(node)
        _set_mask(node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _set_scale(node: torch.fx.Node) -> None:
    query = node.args[0]
    width = query.meta["val"].shape[-1] if isinstance(query, torch.fx.Node) else None
    if node.kwargs.get("scale") is None and isinstance(width, int) and width > 0:
        node.kwargs = {**node.kwargs, "scale": 1 / math.sqrt(width)}


def _set_mask(node: torch.fx.Node) -> None:
    mask: Any = node.args[_MASK] if len(node.args) > _MASK else None
    while isinstance(mask, torch.fx.Node) and mask.target is _aten.expand.default:
        mask = mask.args[0]
    if mask is not None:
        node.update_arg(_MASK, mask)
