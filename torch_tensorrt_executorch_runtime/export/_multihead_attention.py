"""Writes what ``torch.nn.MultiheadAttention`` does to its projections as cuts and views of heads.

That module moves queries, keys and values to a dimension of their own and back, and folds the heads into the batch and
out of it again. Each way gives TensorRT-RTX tensors to copy. Written as a cut of the projection and a view as heads, it
is what other passes join to one copy.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tensorrt_executorch_runtime.export._twin import add_call

__all__ = ["cut_packed_projections", "unfold_heads"]

_aten = torch.ops.aten


def cut_packed_projections(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, parts that are selected of ``[parts, length, batch, width]`` as cuts of the projection.

    The projection is the ``[length, batch, parts * width]`` that was viewed, and moved, to that.
    """
    cuts: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in list(module.graph.nodes):
        projection = _packed_projection(node)
        if projection is None:
            continue
        if projection not in cuts:
            cuts[projection] = _cut(projection, node)
        index: Any = node.args[2]
        with module.graph.inserting_before(node):
            arguments = (cuts[projection], index % len(cuts[projection].meta["val"]))
            part = add_call(node, operator.getitem, arguments, node.meta["val"])
            # What views it expects it to lie in memory as it did.
            part = add_call(node, _aten.clone.default, (part,), node.meta["val"])
            part.kwargs = {"memory_format": torch.contiguous_format}
        node.replace_all_uses_with(part)
    module.graph.eliminate_dead_code()
    module.recompile()


def unfold_heads(module: torch.fx.GraphModule) -> None:
    """Rewrite, in place, heads that are viewed through ``[length, batch * heads, width]`` as heads of each batch."""
    for node in list(module.graph.nodes):
        folded = _folded_heads(node)
        if folded is not None:
            _unfold(node, folded)
    module.graph.eliminate_dead_code()
    module.recompile()


def _packed_projection(node: torch.fx.Node) -> torch.fx.Node | None:
    """Return the projection that a node selects a part of; None when it does not, or its sizes are not known."""
    if node.target is not _aten.select.int or node.args[1] != 0 or not isinstance(node.args[2], int):
        return None
    squeezed = _without_clone(node.args[0])
    moved = _source(squeezed, _aten.squeeze.dims, [[-2], [3]])
    unsqueezed = _source(moved, _aten.permute.default, [[3, 1, 2, 0, 4]])
    view = _source(unsqueezed, _aten.unsqueeze.default, [0])
    projection = None if view is None or view.target is not _aten.view.default else view.args[0]
    if view is None or not isinstance(projection, torch.fx.Node):
        return None
    packed, whole = view.meta["val"].shape, projection.meta["val"].shape
    if len(packed) != 4 or len(whole) != 3 or not all(isinstance(n, int) for n in (*packed[2:], whole[-1])):
        return None
    return projection if _equal(packed[:2], whole[:2]) and packed[2] * packed[3] == whole[-1] else None


def _cut(projection: torch.fx.Node, before: torch.fx.Node) -> torch.fx.Node:
    width = before.meta["val"].shape[-1]
    whole = projection.meta["val"]
    sizes = [width] * (whole.shape[-1] // width)
    with projection.graph.inserting_after(projection):
        return add_call(projection, _aten.split_with_sizes.default, (projection, sizes, -1), whole.split(sizes, -1))


def _folded_heads(node: torch.fx.Node) -> torch.fx.Node | None:
    """Return the view with folded heads that ``node`` makes ``[batch, heads, length, width]`` of; None elsewhere."""
    if node.target is not _aten.view.default:
        return None
    folded = _source(_without_clone(node.args[0]), _aten.permute.default, [[1, 0, 2]])
    if folded is None or folded.target is not _aten.view.default:
        return None
    source: Any = folded.args[0]
    part, heads = source.meta["val"].shape, node.meta["val"].shape
    if len(part) != 3 or len(heads) != 4 or not all(isinstance(n, int) for n in (heads[1], heads[3], part[2])):
        return None
    return folded if _equal((heads[2], heads[0]), part[:2]) and heads[1] * heads[3] == part[2] else None


def _unfold(node: torch.fx.Node, folded: torch.fx.Node) -> None:
    source: Any = folded.args[0]
    sizes: Any = node.args[1]
    batch, heads, length, width = sizes
    value = node.meta["val"]
    # The sizes are given to the last view, so the new one stands there.
    with node.graph.inserting_before(node):
        view = add_call(node, _aten.view.default, (source, [length, batch, heads, width]), value.permute(2, 0, 1, 3))
        moved = add_call(node, _aten.permute.default, (view, [1, 2, 0, 3]), value)
    node.replace_all_uses_with(moved)


def _without_clone(node: Any) -> Any:
    is_clone = isinstance(node, torch.fx.Node) and node.target is _aten.clone.default
    return node.args[0] if is_clone else node


def _source(node: Any, target: Any, arguments: list[Any]) -> torch.fx.Node | None:
    """Return what a node works on, when it is ``target`` with one of these for its second argument."""
    if not isinstance(node, torch.fx.Node) or node.target is not target or node.args[1] not in arguments:
        return None
    source = node.args[0]
    return source if isinstance(source, torch.fx.Node) else None


def _equal(first: Any, second: Any) -> bool:
    return all(statically_known_true(a == b) for a, b in zip(first, second, strict=True))
