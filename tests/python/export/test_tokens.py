"""Layers that treat every token alike work on one matrix of tokens, and give the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from export_helpers import Computed, Result, check_against_eager, check_bindings, lower_model
from torch import nn
from torch.export import Dim
from torch.nn import functional

from models import nets

WIDTH = 12


class Layers(Computed):
    """A function of two linear layers, two normalisations and tensors."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        super().__init__(compute)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.norm, self.plain_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.scale = nn.Parameter(torch.rand(WIDTH))
        self.position = nn.Parameter(torch.rand(1, 5, WIDTH))


def feed_forward(m, x):
    return x + m.down(functional.gelu(m.up(m.norm(x))))


def with_scale(m, x):
    return m.norm(x) * m.scale + torch.tensor(2.0)


def without_weights(m, x):
    return m.plain_norm(x) - x


def with_another_input(m, x, y):
    return m.norm(x) * y + x


def with_positions(m, x):
    return m.norm(m.norm(x) + m.position)


def with_rows_of_another_size(m, x):
    y = m.norm(x)
    return y * y.mean(-1, keepdim=True)


def across_tokens(m, x):
    y = m.norm(x)
    return (y - y.mean(1, keepdim=True)).softmax(-1) + y.flip(1)


def to_half_precision(m, x):
    return torch.where(m.norm(x).half() > 0, 1.5, m.up(x)[..., :WIDTH].half())


def several_results(m, x):
    y = m.norm(x)
    return y, m.up(y), (y + 1).relu()


def used_as_a_row(m, x, row):
    return m.norm(x) + row


def of_last_two(m, x):
    return functional.layer_norm(m.norm(x), (5, WIDTH))


def transposed(m, x):
    return m.norm(x.transpose(0, 1)).transpose(0, 1) + m.norm(x)


X, Y, FOUR = torch.randn(3, 5, WIDTH), torch.randn(3, 5, WIDTH), torch.randn(2, 3, 4, WIDTH)
FLAT = {
    "feed_forward": (feed_forward, (X,)),
    "four dimensions": (feed_forward, (FOUR,)),
    "with_scale": (with_scale, (X,)),
    "without_weights": (without_weights, (X,)),
    "with_another_input": (with_another_input, (X, Y)),
    "with_positions": (with_positions, (X,)),
    "with_rows_of_another_size": (with_rows_of_another_size, (X,)),
    "across_tokens": (across_tokens, (X,)),
    "to_half_precision": (to_half_precision, (X,)),
    "several_results": (several_results, (X,)),
    "used_as_a_row": (used_as_a_row, (X, torch.randn(WIDTH))),
    "of_last_two": (of_last_two, (X,)),
    "transposed": (transposed, (X,)),
}


def ranks(result: Result) -> set[int]:
    """Return the numbers of dimensions that linear layers and normalisations of the last dimension work on."""
    module = result.given()
    return {
        node.args[0].meta["val"].dim()
        for node in module.graph.nodes
        if "linear" in str(node.target) or ("layer_norm" in str(node.target) and len(node.args[1]) == 1)
    }


@pytest.mark.parametrize("name", FLAT)
def test_are_one_matrix(name):
    compute, inputs = FLAT[name]
    module = Layers(compute)
    result = lower_model(module, *inputs)

    assert ranks(result) == {2}
    check_against_eager(result, module, *inputs)
    check_bindings(result)


@pytest.mark.parametrize("shape", [(7, WIDTH), (1, 5, WIDTH), (5, 1, WIDTH), (1, 1, 5, WIDTH), (WIDTH,)])
def test_stay_where_they_lie_in_one_dimension(shape):
    module, x = Layers(feed_forward), torch.randn(shape)
    result = lower_model(module, x)

    assert ranks(result) == {len(shape)}
    check_against_eager(result, module, x)


def test_stay_where_their_number_changes():
    module, x = Layers(feed_forward), torch.randn(2, 5, WIDTH)
    result = lower_model(module, x, dynamic_shapes=(({0: Dim("batch", min=1, max=4)},),))

    assert ranks(result) == {3}
    for batch in (1, 4):
        check_against_eager(result, module, torch.randn(batch, 5, WIDTH))


def test_of_other_layers_stay_as_they_are():
    """Activations and sums of images have nothing to gain."""
    module, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU()), torch.randn(2, 3, 6, 6)
    result = lower_model(module, x)

    lowered = result.given()
    assert {node.meta["val"].dim() for node in lowered.graph.nodes if "gelu" in str(node.target)} == {4}
    check_against_eager(result, module, x)


def test_of_an_encoder_block_are_one_matrix_from_end_to_end():
    module, x = nets.EncoderBlock(width=32, heads=4).eval(), torch.randn(2, 6, 32)
    result = lower_model(module, x)

    assert ranks(result) == {2}
    check_against_eager(result, module, x)
