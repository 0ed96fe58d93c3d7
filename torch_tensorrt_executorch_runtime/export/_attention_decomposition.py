"""Writes attention out where TensorRT-RTX, or its converter, would compute something else or end the process."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

__all__ = ["attention_decomposition"]

_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def attention_decomposition(otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a decomposition of attention.

    * A causal mask between lengths that differ begins at the upper left, as PyTorch has it; the converter lets it begin
      at the lower right, which is for caches.
    * Float32 is written as products. TensorRT-RTX 1.6 has no other kernels for it, and its builder ends the process
      with a segmentation fault where keys or values were cast to float32 just before.

    Args:
        otherwise: Decomposes what is left; without it, that stays whole.
    """

    def decompose(  # noqa: PLR0917 - the operator's own arguments
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        lengths = query.shape[-2], key.shape[-2]
        changed = is_causal and not statically_known_true(lengths[0] == lengths[1])
        is_float32 = query.dtype == torch.float32 and isinstance(query.shape[-1], int)
        if is_causal and (changed or is_float32):
            attn_mask, is_causal = _causal_mask(*lengths), False
        if is_float32:
            if enable_gqa:
                key, value = (_for_each_query_head(x, query.shape[-3]) for x in (key, value))
            return _products(query, key, value, attn_mask, 1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        options = {"scale": scale, "enable_gqa": enable_gqa}
        if otherwise is not None:
            return otherwise(query, key, value, attn_mask, dropout_p, is_causal, **options)
        return _ATTENTION(query, key, value, attn_mask, dropout_p, False, **options) if changed else NotImplemented

    return decompose


def _causal_mask(rows: Any, columns: Any) -> Tensor:
    return torch.arange(rows).unsqueeze(-1) >= torch.arange(columns)


def _for_each_query_head(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.shape[-3], -3)


def _products(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    scores = (query @ key.transpose(-2, -1)) * scale
    if mask is None:
        return torch.softmax(scores, -1) @ value
    if mask.dtype == torch.bool:
        kept = mask
    else:
        kept, scores = mask > float("-inf"), scores + mask
    # A query that may see no key at all gives zeros, as in PyTorch.
    shares = torch.softmax(torch.where(kept, scores, torch.finfo(scores.dtype).min), -1)
    return torch.where(kept, shares, 0.0) @ value
