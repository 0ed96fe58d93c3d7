"""Small models that an operator outside of TensorRT cuts in two, or whose results have sizes that depend on values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .corner_cases import One, Two


@dataclass(frozen=True)
class Split:
    """A model, the inputs of consecutive calls, and what becomes of it.

    ``excluded`` are operators that the caller keeps out of the engines; ``outside`` are all that are not in one.
    """

    make: Callable[[], nn.Module]
    calls: tuple[tuple[Tensor, ...], ...]
    engines: int
    outside: tuple[str, ...]
    excluded: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.calls[0]

    @property
    def options(self) -> dict[str, Any]:
        return {"torch_executed_ops": list(self.excluded)}


def _integers(x):
    # Whole numbers before and after the cut; a float32 in between would lose the last digits.
    return (torch.bitwise_or(x * 3 // 2, torch.ones_like(x)) // 5) + 2**40


def _first(x, count):
    n = count.item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return (x * 2)[:n] + 1


def _range(x, count):
    n = count.item()
    torch._check(n >= 2)
    torch._check(n <= 8)
    return x * 2, torch.arange(n) * 2


_HITS = tuple(
    (torch.tensor(values, dtype=torch.float32),)
    for values in ([1, -1, 2, -1, 0, 3], [-1] * 6, [1] * 6, [-1, -1, -1, -1, -1, 5])
)
"""Some, no, all and one of six elements above 0; every call has the same shape."""

_COUNTS = tuple((torch.arange(6.0), torch.tensor(count)) for count in (3, 6, 2, 4))

SPLITS = {
    "integers_across_a_cut": Split(
        lambda: One(_integers),
        ((torch.tensor([7, -7, 2**40 + 1]),), (torch.tensor([0, 2**31, -(2**53) - 1]),)),
        engines=2,
        outside=("aten.bitwise_or.Tensor",),
        excluded=("aten.bitwise_or",),
    ),
    "scalar_across_a_cut": Split(
        lambda: One(lambda x: torch.tanh(x.sum() / 8) * x),
        tuple((torch.arange(4.0) - start,) for start in (0, 1, 3)),
        engines=2,
        outside=("aten.tanh.default",),
        excluded=("aten.tanh",),
    ),
    "mask_across_a_cut": Split(
        lambda: One(lambda x: torch.where(torch.logical_not(x > 0), x * 2, x * 3)),
        _HITS,
        engines=2,
        outside=("aten.logical_not.default",),
        excluded=("aten.logical_not",),
    ),
    "float64_beside_float32": Split(
        lambda: Two(lambda x, y: (x * 2, y * 2 + 1)),
        (
            (torch.arange(3.0), torch.tensor([1e300, 1 + 1e-12, -3], dtype=torch.float64)),
            (torch.ones(3), torch.tensor([-1e300, 1e-300, 2**53 + 1], dtype=torch.float64)),
        ),
        engines=1,
        outside=("aten._to_copy.default", "aten.add.Tensor", "aten.mul.Tensor"),
    ),
    "chosen_by_a_mask": Split(lambda: One(lambda x: (x * 2)[x > 0]), _HITS, engines=1, outside=("aten.index.Tensor",)),
    "places_of_hits": Split(
        lambda: One(lambda x: torch.nonzero(x * 2 > 0)), _HITS, engines=1, outside=("aten.nonzero.default",)
    ),
    "places_of_places": Split(
        lambda: One(lambda x: torch.nonzero(torch.nonzero(x * 2 > 0).flatten())),
        _HITS,
        engines=1,
        outside=("aten.nonzero.default", "aten.view_copy.default"),
    ),
    "as_many_as_a_value_says": Split(
        lambda: Two(_first), _COUNTS, engines=1, outside=("aten.add.Tensor", "aten.slice_copy.Tensor")
    ),
    "range_as_long_as_a_value_says": Split(
        lambda: Two(_range), _COUNTS, engines=1, outside=("aten.arange.start_step", "aten.mul.Tensor")
    ),
}
"""Every case by name."""
