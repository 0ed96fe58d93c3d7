"""A last linear layer and its residual are one product of batches, and give the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from export_helpers import Computed, Result, check_against_eager, check_bindings, lower_model
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from models import nets

WIDTH = 12


class Layers(Computed):
    """A function of two linear layers, a normalisation and tensors."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        super().__init__(compute)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm, self.other_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.down_alone = nn.Linear(2 * WIDTH, WIDTH, bias=False)


def feed_forward(m, x):
    return x + m.down(functional.gelu(m.up(m.norm(x))))


def the_other_way_round(m, x):
    return m.down(functional.gelu(m.up(m.norm(x)))) + x


def without_bias(m, x):
    return x + m.down_alone(m.up(x))


def with_another_residual(m, x, y):
    return y + m.down(m.up(m.norm(x)))


def two_normalisations(m, x):
    return x + m.down(m.up(m.norm(x)) + m.up(m.other_norm(x)))


def two_results(m, x):
    y = x + m.down(m.up(m.norm(x)))
    return y, m.norm(x) + m.down_alone(m.up(x))


def two_blocks(m, x):
    y = x + m.down(m.up(m.norm(x)))
    return y + m.down_alone(m.up(m.other_norm(y)))


def each_block_is_a_result(m, x):
    y = x + m.down(m.up(m.norm(x)))
    return y, y + m.down_alone(m.up(m.other_norm(y)))


def used_again(m, x):
    y = x + m.down(m.up(m.norm(x)))
    return y, y.relu()


def sum_of_products(m, x):
    return m.down(m.up(x)) + m.down_alone(m.up(x))


def block_used_otherwise(m, x):
    y = x + m.down(m.up(m.norm(x)))
    return y + m.down_alone(m.up(y.relu()))


def scaled(m, x):
    return torch.add(x, m.down(m.up(x)), alpha=2)


def of_one_row(m, x, row):
    return row + m.down(m.up(x))


def not_last(m, x):
    return functional.relu(x + m.down(m.up(m.norm(x))))


X, Y = torch.randn(3, 32, WIDTH), torch.randn(3, 32, WIDTH)
# With how many of their linear layers become products of batches.
BATCHED = {
    "feed_forward": (feed_forward, (X,), 1),
    "the_other_way_round": (the_other_way_round, (X,), 1),
    "without_bias": (without_bias, (X,), 1),
    "with_another_residual": (with_another_residual, (X, Y), 1),
    "two_normalisations": (two_normalisations, (X,), 1),
    "two_results": (two_results, (X,), 2),
    "sum_of_products": (sum_of_products, (X,), 1),
    "two_blocks": (two_blocks, (X,), 2),
    "each_block_is_a_result": (each_block_is_a_result, (X,), 2),
    "block_used_otherwise": (block_used_otherwise, (X,), 1),
}
LEFT = {
    "used_again": (used_again, (X,)),
    "scaled": (scaled, (X,)),
    "of_one_row": (of_one_row, (X, torch.randn(WIDTH))),
    "not_last": (not_last, (X,)),
    "one batch": (feed_forward, (torch.randn(1, 32, WIDTH),)),
    "few tokens": (feed_forward, (torch.randn(3, 31, WIDTH),)),
    "two dimensions": (feed_forward, (torch.randn(32, WIDTH),)),
    "four dimensions": (feed_forward, (torch.randn(2, 3, 32, WIDTH),)),
}


def products(result: Result) -> list[tuple[int, ...]]:
    """Return the shapes of products of batches."""
    module = result.given()
    return [tuple(node.meta["val"].shape) for node in module.graph.nodes if "bmm" in str(node.target)]


@pytest.mark.parametrize("name", BATCHED)
def test_is_a_product_of_batches(name: str) -> None:
    compute, inputs, count = BATCHED[name]
    module = Layers(compute)
    result = lower_model(module, *inputs)

    assert products(result) == [(3, 32, WIDTH)] * count
    check_against_eager(result, module, *inputs)
    check_bindings(result)


@pytest.mark.parametrize("name", LEFT)
def test_is_left_alone_otherwise(name: str) -> None:
    compute, inputs = LEFT[name]
    module = Layers(compute)
    result = lower_model(module, *inputs)

    assert products(result) == []
    check_against_eager(result, module, *inputs)


def test_is_left_alone_where_the_batch_changes() -> None:
    module = Layers(feed_forward)
    result = lower_model(module, X, dynamic_shapes=(({0: Dim("batch", min=2, max=4)},),))

    assert products(result) == []
    check_against_eager(result, module, torch.randn(2, 32, WIDTH))


@pytest.mark.parametrize(("batch", "layers", "count"), [(3, 1, 1), (4, 1, 0), (2, 3, 2)])
def test_takes_no_more_than_a_mebibyte_of_more_weights(batch: int, layers: int, count: int) -> None:
    class Wide(nn.Module):
        """Layers with half a mebibyte of weights each."""

        def __init__(self) -> None:
            super().__init__()
            self.norm: Any = nn.LayerNorm(256)
            self.down: Any = nn.ModuleList(nn.Linear(512, 256) for _ in range(layers))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            for down in self.down:
                y = y + down(torch.cat([self.norm(y), x], -1))
            return y

    inputs = torch.randn(batch, 32, 256), torch.randn(batch, 32, 256)
    assert len(products(lower_model(Wide().eval(), *inputs))) == count


def test_of_an_encoder_block_are_products_with_their_residuals() -> None:
    module, x = nets.EncoderBlock(width=32, heads=4).eval(), torch.randn(2, 48, 32)
    result = lower_model(module, x)

    assert products(result).count((2, 48, 32)) == 2
    check_against_eager(result, module, x)
