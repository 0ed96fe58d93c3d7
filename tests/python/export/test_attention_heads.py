"""Fused projections are viewed as attention heads once, where that changes nothing, and stay as they are elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from export_helpers import Result, check_against_eager, lower_model
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

WIDTH = 24
X = torch.randn(2, 5, WIDTH)


class Attention(nn.Module):
    """Attention whose fused projection is cut and viewed by a function."""

    def __init__(self, cut: Callable[[Tensor], tuple[Tensor, ...]], size: int = 3 * WIDTH) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project = nn.Linear(WIDTH, size)
        self.cut = cut

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.cut(self.project(x))
        groups = q.shape[1] // k.shape[1]
        k, v = (part.repeat_interleave(groups, 1) if groups > 1 else part for part in (k, v))
        return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def chunked(y: Tensor) -> tuple[Tensor, ...]:
    return tuple(heads(part, 4) for part in y.chunk(3, -1))


def split(y: Tensor) -> tuple[Tensor, ...]:
    return tuple(heads(part, 4) for part in y.split(WIDTH, 2))


def reshaped(y: Tensor) -> tuple[Tensor, ...]:
    b, length, _ = y.shape
    return tuple(part.reshape(b, length, 4, WIDTH // 4).permute(0, 2, 1, 3) for part in y.chunk(3, dim=-1))


def grouped(y: Tensor) -> tuple[Tensor, ...]:
    """Fewer heads of keys and values than of queries."""
    q, k, v = y.split([WIDTH, 12, 12], -1)
    return heads(q, 4), heads(k, 2), heads(v, 2)


def in_another_order(y: Tensor) -> tuple[Tensor, ...]:
    v, q, k = y.chunk(3, -1)
    return heads(q, 4), heads(k, 4), heads(v, 4)


def one_unused(y: Tensor) -> tuple[Tensor, ...]:
    q, _, v = y.chunk(3, -1)
    return heads(q, 4), heads(q, 4), heads(v, 4)


def two_of_three(y: Tensor) -> tuple[Tensor, ...]:
    q, _, v = y.chunk(3, -1)
    q = heads(q, 4)
    return q, q, heads(v, 4)


FUSED = {"chunked": chunked, "split": split, "reshaped": reshaped, "in_another_order": in_another_order,
         "two_of_three": two_of_three}  # fmt: skip


def other_widths(y: Tensor) -> tuple[Tensor, ...]:
    q, k, v = y.chunk(3, -1)
    return heads(q, 4), heads(k, 4), heads(v, 2).transpose(1, 2).reshape(2, 5, 4, 6).transpose(1, 2)


def used_twice(y: Tensor) -> tuple[Tensor, ...]:
    q, k, v = y.chunk(3, -1)
    return heads(q + k, 4), heads(k, 4), heads(v, 4)


def activated(y: Tensor) -> tuple[Tensor, ...]:
    q, k, v = y.chunk(3, -1)
    return heads(q.relu(), 4), heads(k, 4), heads(v, 4)


def cut_elsewhere(y: Tensor) -> tuple[Tensor, ...]:
    first, second = y.split([2, 3], 1)
    y = torch.cat([second, first], 1)
    return tuple(part.transpose(1, 2).unflatten(1, (4, -1)).transpose(2, 3) for part in y.chunk(3, -1))


def heads_before_length(y: Tensor) -> tuple[Tensor, ...]:
    """A view that mixes the length with the width."""
    return tuple(part.reshape(2, 4, 5, 6) for part in y.chunk(3, -1))


UNTOUCHED = {"other_widths": other_widths, "used_twice": used_twice, "activated": activated,
             "cut_elsewhere": cut_elsewhere, "heads_before_length": heads_before_length}  # fmt: skip


def splits(result: Result) -> int:
    """Count the splits that TensorRT is given."""
    module = result.given()
    return sum("split" in str(node.target) for node in module.graph.nodes)


@pytest.mark.parametrize("name", FUSED)
def test_are_viewed_once(name):
    module = Attention(FUSED[name])
    result = lower_model(module, X)

    assert splits(result) == 0
    check_against_eager(result, module, X)


def test_may_be_fewer_for_keys_and_values():
    module = Attention(grouped, size=2 * WIDTH)
    result = lower_model(module, X)

    assert splits(result) == 0
    check_against_eager(result, module, X)


@pytest.mark.parametrize("name", ["chunked", "reshaped"])
def test_are_viewed_once_for_every_size(name):
    module = Attention(FUSED[name])
    batch, length = Dim("batch", min=1, max=4), Dim("length", min=2, max=16)
    result = lower_model(module, X, dynamic_shapes=({0: batch, 1: length},))

    assert splits(result) == 0
    for shape in ((1, 2), (4, 16), (2, 5)):
        check_against_eager(result, module, torch.randn(*shape, WIDTH))


@pytest.mark.parametrize("name", UNTOUCHED)
def test_stay_as_they_are_where_a_view_would_change_them(name):
    module = Attention(UNTOUCHED[name])
    result = lower_model(module, X)

    assert splits(result) >= 1
    check_against_eager(result, module, X)


class ThreeLayers(nn.Module):
    """Attention with a linear layer each for queries, keys and values, some without a bias."""

    def __init__(self, *, biases: tuple[bool, bool, bool], key_heads: int = 4, of_two: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        sizes = (WIDTH, key_heads * WIDTH // 4, key_heads * WIDTH // 4)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, n, bias=bias) for n, bias in zip(sizes, biases, strict=True))
        self.of_two = of_two

    def forward(self, x: Tensor) -> Tensor:
        other = x.flip(1) if self.of_two else x
        sources = (x, other, other)
        projected = (layer(source) for layer, source in zip(self.layers, sources, strict=True))
        q, k, v = (y.unflatten(-1, (-1, WIDTH // 4)).transpose(1, 2) for y in projected)
        groups = q.shape[1] // k.shape[1]
        k, v = (part.repeat_interleave(groups, 1) if groups > 1 else part for part in (k, v))
        return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def products(result: Result) -> int:
    """Count the linear layers that TensorRT is given."""
    module = result.given()
    return sum("linear" in str(node.target) for node in module.graph.nodes)


LAYERS = {
    "biases": ({"biases": (True, True, True)}, 1),
    "no biases": ({"biases": (False, False, False)}, 1),
    "some biases": ({"biases": (True, False, True)}, 1),
    "fewer heads of keys": ({"biases": (True, True, True), "key_heads": 2}, 1),
    "queries of another tensor": ({"biases": (True, True, True), "of_two": True}, 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_come_from_one_product(name):
    options, expected = LAYERS[name]
    module = ThreeLayers(**options)
    result = lower_model(module, X)

    assert (products(result), splits(result)) == (expected, 0)
    check_against_eager(result, module, X)


def test_come_from_one_product_for_every_size():
    module = ThreeLayers(biases=(True, True, False))
    batch, length = Dim("batch", min=1, max=4), Dim("length", min=2, max=16)
    result = lower_model(module, X, dynamic_shapes=({0: batch, 1: length},))

    assert products(result) == 1
    for shape in ((1, 2), (4, 16), (2, 5)):
        check_against_eager(result, module, torch.randn(*shape, WIDTH))


def test_come_from_three_products_where_a_weight_is_an_input():
    class OwnWeight(ThreeLayers):
        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            y = super().forward(x)
            return y + functional.linear(x, weight).unflatten(-1, (4, -1)).transpose(1, 2).transpose(1, 2).flatten(2)

    module, weight = OwnWeight(biases=(True, True, True)), torch.randn(WIDTH, WIDTH)
    result = lower_model(module, X, weight)

    assert products(result) == 2
    check_against_eager(result, module, X, weight)


def test_are_not_taken_for_a_gate():
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return self.gate(x).sigmoid() * self.up(x)

    result = lower_model(Gate(), X)

    assert products(result) == 2
