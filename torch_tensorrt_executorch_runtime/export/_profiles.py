"""The engine's inputs: type, shape and the range of each dynamic size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_tensorrt_executorch_runtime._blob import Profile
from torch_tensorrt_executorch_runtime._errors import ExportError, kind_of

__all__ = ["RANGES_META", "EngineInput", "SizeRange", "engine_inputs", "program_ranges", "size_range", "static_shape"]

# Where the partitioner leaves the ranges that the caller asked for: converting a program to the edge dialect raises
# every lower bound of 1 to 2.
RANGES_META = "tensorrt_size_ranges"

_Ranges = Mapping[Any, ValueRanges[Any]]


@dataclass(frozen=True)
class SizeRange:
    """The smallest, the example's and the largest value of one size."""

    min: int
    opt: int
    max: int


@dataclass(frozen=True)
class EngineInput:
    """One input of an engine; ``profile`` is None when the shape is static."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    profile: Profile | None


def engine_inputs(placeholders: Iterable[torch.fx.Node], ranges: _Ranges) -> list[EngineInput]:
    """Describe the inputs of a partition.

    Args:
        placeholders: The partition's inputs, in the order of the delegate's arguments.
        ranges: See :func:`program_ranges`.

    Raises:
        ExportError: An input is no tensor, or one of its sizes has no upper bound.
    """
    return [_engine_input(node, ranges) for node in placeholders]


def program_ranges(program: ExportedProgram) -> _Ranges:
    """Return the range of each symbol of a partition, as the caller of the export gave them where that is known."""
    ranges: dict[Any, ValueRanges[Any]] = dict(program.range_constraints)
    for node in program.graph.nodes:
        if RANGES_META in node.meta:
            ranges.update(node.meta[RANGES_META])
            break
    return ranges


def static_shape(value: torch.Tensor) -> tuple[int, ...]:
    """Return the shape with -1 for each dynamic size."""
    return tuple(-1 if isinstance(size, torch.SymInt) else int(size) for size in value.shape)


def size_range(size: int | torch.SymInt, ranges: _Ranges) -> SizeRange | None:
    """Return the values that a size may take, or None when they have no upper bound.

    The exporter's own bookkeeping never goes below 2, because PyTorch treats 0 and 1 as special while it traces; the
    range that the caller asked for is the one in ``ranges``.
    """
    if not isinstance(size, torch.SymInt):
        return SizeRange(int(size), int(size), int(size))
    node: Any = size.node
    expression = node.expr
    known = {symbol: ranges[symbol] for symbol in expression.free_symbols if symbol in ranges}
    bounds = bound_sympy(expression, {**node.shape_env.var_to_range, **known})
    if bounds.upper == int_oo or not bounds.upper.is_finite:
        return None
    low, high = max(int(bounds.lower), 0), int(bounds.upper)
    return SizeRange(low, min(max(int(node.hint), low), high), high)


def _engine_input(node: torch.fx.Node, ranges: _Ranges) -> EngineInput:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise ExportError(
            f"The engine's input {node.name!r} is {kind_of(value)}, but engines take tensors only. "
            "Lower the model with torch_tensorrt_executorch_runtime.export.lower, which computes sizes inside."
        )
    shape = static_shape(value)
    if -1 not in shape:
        return EngineInput(node.name, value.dtype, shape, None)
    sizes = []
    for axis, size in enumerate(value.shape):
        found = size_range(size, ranges)
        if found is None:
            raise ExportError(
                f"Dimension {axis} ({size}) of the engine's input {node.name!r} has no upper bound, but an engine "
                "needs one. Export with torch.export.Dim(name, min=..., max=...)."
            )
        sizes.append(found)
    profile = Profile(
        min=tuple(size.min for size in sizes),
        opt=tuple(size.opt for size in sizes),
        max=tuple(size.max for size in sizes),
    )
    return EngineInput(node.name, value.dtype, shape, profile)
