"""Writes attention as the products that it is, where TensorRT-RTX joins these to one kernel again.

TensorRT-RTX has a kernel for attention, and another one that moves the heads of its result back into tokens. Given the
products themselves, it finds the same kernel and lets that write where the tokens are: a kernel less in every layer.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._twin import add_computed_call

__all__ = ["write_attention_as_products"]

_aten = torch.ops.aten
_ATTENTION = _aten.scaled_dot_product_attention.default
_OPTIONAL = ("attn_mask", "dropout_p", "is_causal")

# What the kernel is found for. Other types, and narrower heads, would leave a kernel for each product.
_TYPES = frozenset({torch.float16, torch.bfloat16})
_LEAST_WIDTH = 16


def write_attention_as_products(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, attention in half precision that has no mask, a scale, and sizes that never change."""
    for node in module.graph.find_nodes(op="call_function", target=_ATTENTION):
        if _has_only_a_scale(node) and _is_joined_again(node):
            _rewrite(node)
    module.recompile()


def _has_only_a_scale(node: torch.fx.Node) -> bool:
    given = {**dict(zip(_OPTIONAL, node.args[3:], strict=False)), **node.kwargs}
    plain = given.get("attn_mask") is None and not given.get("is_causal") and not given.get("enable_gqa")
    # Torch-TensorRT marks attention whose softmax is quantized.
    return plain and given.get("scale") is not None and "_fp8_softmax_scale" not in node.meta


def _is_joined_again(node: torch.fx.Node) -> bool:
    sources = node.args[:3]
    if not all(isinstance(source, torch.fx.Node) for source in sources):
        return False
    query, key, value = (source.meta["val"] for source in sources)  # type: ignore[union-attr]
    if query.dtype not in _TYPES or query.dim() != 4 or key.shape != value.shape:
        return False
    if not all(isinstance(size, int) for size in (*query.shape, *key.shape)):
        return False
    width, keys = query.shape[-1], key.shape[-2]
    return bool(query.shape[:2] == key.shape[:2] and width >= _LEAST_WIDTH and width % 8 == 0 and keys > 1)


def _rewrite(node: torch.fx.Node) -> None:
    call = functools.partial(add_computed_call, node)

    def one_batch(source: Any) -> torch.fx.Node:
        return call(_aten.reshape.default, source, [-1, *source.meta["val"].shape[2:]])

    query, key, value = node.args[:3]
    with node.graph.inserting_before(node):
        scaled = call(_aten.mul.Tensor, query, node.kwargs["scale"])
        scores = call(_aten.bmm.default, one_batch(scaled), call(_aten.permute.default, one_batch(key), [0, 2, 1]))
        shares = call(_aten._softmax.default, scores, -1, False)
        result = call(_aten.bmm.default, shares, one_batch(value))
        unfolded = call(_aten.reshape.default, result, list(node.meta["val"].shape))
    node.replace_all_uses_with(unfolded)
    node.graph.erase_node(node)
