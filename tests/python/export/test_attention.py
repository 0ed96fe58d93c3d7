"""Attention keeps its meaning, with every kind of mask and scale, and gets its scale as a factor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from export_helpers import DEFAULTS, Result, check_against_eager, check_bindings, lower_model
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from torch_tensorrt_executorch_runtime.export import _engine_builder

WIDTH, HEADS, LENGTH = 24, 3, 5
X = torch.randn(2, LENGTH, WIDTH)
Arguments = dict[str, Any]


class Attention(nn.Module):
    """Self-attention that a function gives further arguments."""

    def __init__(self, further: Callable[[Attention, Tensor], Arguments]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.further = further
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.randn(HEADS, LENGTH, LENGTH))
        self.table = nn.Parameter(torch.randn(2 * LENGTH - 1, HEADS))
        self.mask = nn.Buffer(torch.ones(LENGTH, LENGTH).tril().bool())
        places = torch.arange(LENGTH)
        self.distances = nn.Buffer(places[:, None] - places + LENGTH - 1)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, **self.further(self, x))
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


def slopes(m, x):
    """Return ALiBi's bias."""
    return -(m.distances - LENGTH + 1).abs() * torch.tensor([0.5, 0.25, 0.125])[:, None, None]


FURTHER = {
    "nothing": lambda m, x: {},
    "causal": lambda m, x: {"is_causal": True},
    "mask": lambda m, x: {"attn_mask": m.mask},
    "mask of numbers": lambda m, x: {"attn_mask": m.mask.to(x.dtype)},
    "learned bias": lambda m, x: {"attn_mask": m.bias},
    "learned bias for all batches": lambda m, x: {"attn_mask": m.bias[None].expand(x.shape[0], -1, -1, -1)},
    "bias from a table": lambda m, x: {"attn_mask": m.table[m.distances].permute(2, 0, 1)[None]},
    "slopes": lambda m, x: {"attn_mask": slopes(m, x)},
    "bias from the input": lambda m, x: {"attn_mask": (x @ x.transpose(1, 2))[:, None]},
    "mask from the input": lambda m, x: {"attn_mask": (x.sum(-1) < 10)[:, None, None]},
    "scale": lambda m, x: {"scale": 0.3},
    "scale and bias": lambda m, x: {"scale": 2.0, "attn_mask": m.bias},
}
SCALES = {"scale": 0.3, "scale and bias": 2.0}


def scales(result: Result) -> list[float]:
    (delegate,) = result.delegates
    module, _ = _engine_builder.partition_module(delegate.original_module, DEFAULTS)
    attention = torch.ops.aten.scaled_dot_product_attention.default
    return [node.kwargs["scale"] for node in module.graph.find_nodes(op="call_function", target=attention)]


@pytest.mark.parametrize("name", FURTHER)
def test_gives_the_same_and_has_a_scale(name: str) -> None:
    module = Attention(FURTHER[name]).eval()
    result = lower_model(module, X)

    assert scales(result) == [pytest.approx(SCALES.get(name, 1 / math.sqrt(WIDTH // HEADS)))]
    check_against_eager(result, module, X)
    check_bindings(result)


@pytest.mark.parametrize("name", FURTHER)
def test_gives_the_same_for_another_batch(name: str) -> None:
    module = Attention(FURTHER[name]).eval()
    result = lower_model(module, X, dynamic_shapes=({0: Dim("batch", min=1, max=4)},))

    check_against_eager(result, module, torch.randn(3, LENGTH, WIDTH))


def test_has_no_factor_where_the_width_of_a_head_changes() -> None:
    class Heads(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(x, x, x)

    module = Heads()
    result = lower_model(module, torch.randn(1, 2, 4, 8), dynamic_shapes=({3: Dim("width", min=2, max=16)},))

    check_against_eager(result, module, torch.randn(1, 2, 4, 12))
