"""Computes the projections of one tensor to attention heads in one product.

Many models project queries, keys and values with three linear layers. TensorRT-RTX multiplies once for all three, but
adds each bias and moves each part to its heads in a kernel of its own. With the weights put together it does that in
one, as for a model that was written with one projection.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._attention_heads import view_of_heads
from torch_tensorrt_executorch_runtime.export._constants import add_constant, constant_value
from torch_tensorrt_executorch_runtime.export._twin import add_call

__all__ = ["fuse_projections"]

_aten = torch.ops.aten


def fuse_projections(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, linear layers of one input, all viewed as heads of one width, as one layer and a split."""
    groups = defaultdict(list)
    for node in module.graph.nodes:
        if node.target is _aten.linear.default and _has_constant_weights(module, node):
            view = view_of_heads(node, node.meta["val"])
            if view is not None:
                groups[node.args[0], view.meta["val"].shape[-1], node.meta["val"].dtype].append(node)
    for layers in groups.values():
        if len(layers) > 1:
            _fuse(module, layers)
    module.recompile()


def _has_constant_weights(module: torch.fx.GraphModule, layer: torch.fx.Node) -> bool:
    weights = [argument for argument in layer.args[1:] if argument is not None]
    return all(constant_value(module, weight) is not None for weight in weights)


def _fuse(module: torch.fx.GraphModule, layers: list[torch.fx.Node]) -> None:
    """Replace linear layers, given in the order of the graph, by one in the place of the first."""
    first = layers[0]
    given: Any = first.args[1]
    arguments = [first.args[0], add_constant(module, given, "fused", _weight(module, layers))]
    bias = _bias(module, layers)
    if bias is not None:
        arguments.append(add_constant(module, given, "fused_bias", bias))
    values = [layer.meta["val"] for layer in layers]
    sizes = [int(value.shape[-1]) for value in values]
    whole = values[0].new_empty((*values[0].shape[:-1], sum(sizes)))
    with module.graph.inserting_before(first):
        fused = add_call(first, _aten.linear.default, tuple(arguments), whole)
        split = add_call(first, _aten.split_with_sizes.default, (fused, sizes, -1), whole.split(sizes, -1))
        parts = [add_call(layer, operator.getitem, (split, i), values[i]) for i, layer in enumerate(layers)]
    for layer, part in zip(layers, parts, strict=True):
        layer.replace_all_uses_with(part)
        module.graph.erase_node(layer)


def _weight(module: torch.fx.GraphModule, layers: list[torch.fx.Node]) -> torch.Tensor:
    return torch.cat([_value(module, layer.args[1]) for layer in layers])


def _bias(module: torch.fx.GraphModule, layers: list[torch.fx.Node]) -> torch.Tensor | None:
    """Return the biases one after the other, zeros for a layer without; None when none has any."""
    given = [layer.args[2] if len(layer.args) > 2 else None for layer in layers]
    if not any(given):
        return None
    weights = [_value(module, layer.args[1]) for layer in layers]
    return torch.cat(
        [
            weight.new_zeros(weight.shape[0]) if bias is None else _value(module, bias)
            for weight, bias in zip(weights, given, strict=True)
        ]
    )


def _value(module: torch.fx.GraphModule, node: Any) -> torch.Tensor:
    value = constant_value(module, node)
    assert value is not None
    return value
