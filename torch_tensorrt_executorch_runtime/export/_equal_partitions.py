"""Recognises partitions that are equal, so that their engine is built once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime.export._profiles import engine_inputs, program_ranges
from torch_tensorrt_executorch_runtime.export._twin import constant_placeholders

__all__ = ["EqualPartitions"]

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class _Known(Generic[_Result]):
    weights: Sequence[torch.Tensor]
    result: _Result


class EqualPartitions(Generic[_Result]):
    """What was made of each partition so far.

    Two partitions are equal when their graphs are, name by name, with the inputs' types, shapes and ranges, and every
    bit of their weights. Weights are compared only where all else is equal, and not at all when they share memory.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, list[_Known[_Result]]] = {}

    def find(self, program: ExportedProgram, settings: Hashable) -> _Result | None:
        """Return what was made of an equal partition with the same settings, or None."""
        weights = list(constant_placeholders(program).values())
        for known in self._known.get(_structure(program, settings), ()):
            if all(map(_equal, known.weights, weights)):
                return known.result
        return None

    def add(self, program: ExportedProgram, settings: Hashable, result: _Result) -> None:
        """Remember what was made of a partition."""
        weights = list(constant_placeholders(program).values())
        self._known.setdefault(_structure(program, settings), []).append(_Known(weights, result))


def _structure(program: ExportedProgram, settings: Hashable) -> Hashable:
    constants = constant_placeholders(program)
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node not in constants]
    return (
        settings,
        tuple(_node(node) for node in program.graph.nodes),
        tuple(node.name for node in constants),
        tuple(engine_inputs(inputs, program_ranges(program))),
    )


def _node(node: torch.fx.Node) -> Hashable:
    if node.op in ("get_attr", "call_module"):
        return node  # what its name stands for does not show: equal to itself only
    # Numbers, types and the names of other nodes all show in the text of the arguments.
    return node.op, node.name, str(node.target), repr(node.args), repr(node.kwargs), _value(node.meta.get("val"))


def _value(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return str(value.dtype), str(tuple(value.shape)), str(value.stride())
    if isinstance(value, list | tuple):
        return tuple(map(_value, value))
    return str(value)


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    if (first.dtype, first.shape, first.stride()) != (second.dtype, second.shape, second.stride()):
        return False
    return first.data_ptr() == second.data_ptr() or torch.equal(_bits(first), _bits(second))


def _bits(value: torch.Tensor) -> torch.Tensor:
    # Not the numbers: zeros of either sign are equal as numbers, and NaN is not equal to itself.
    return value.detach().contiguous().reshape(-1).view(torch.uint8)
