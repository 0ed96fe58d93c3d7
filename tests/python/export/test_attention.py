"""Attention keeps its meaning, with every kind of mask and scale, and is given as TensorRT-RTX takes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from export_helpers import Result, check_against_eager, check_bindings, lower_model
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

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


def attention_nodes(result: Result) -> list[torch.fx.Node]:
    """Return what the converters are given as attention."""
    module = result.given()
    attention = torch.ops.aten.scaled_dot_product_attention.default
    return list(module.graph.find_nodes(op="call_function", target=attention))


@pytest.mark.parametrize("name", FURTHER)
def test_of_half_precision_has_a_scale(name: str) -> None:
    module, x = Attention(FURTHER[name]).eval().half(), X.half()
    result = lower_model(module, x)

    scale = SCALES.get(name, 1 / math.sqrt(WIDTH // HEADS))
    assert [node.kwargs["scale"] for node in attention_nodes(result)] == [pytest.approx(scale)]
    check_against_eager(result, module, x)
    check_bindings(result)


@pytest.mark.parametrize("name", FURTHER)
def test_of_float32_is_written_out(name: str) -> None:
    module = Attention(FURTHER[name]).eval()
    result = lower_model(module, X)

    assert attention_nodes(result) == []
    check_against_eager(result, module, X)
    check_bindings(result)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("name", FURTHER)
def test_gives_the_same_for_another_batch(name: str, dtype: torch.dtype) -> None:
    module = Attention(FURTHER[name]).eval().to(dtype)
    result = lower_model(module, X.to(dtype), dynamic_shapes=({0: Dim("batch", min=1, max=4)},))

    check_against_eager(result, module, torch.randn(3, LENGTH, WIDTH).to(dtype))


class Heads(nn.Module):
    """Attention of given queries, keys and values."""

    def __init__(self, dtype: torch.dtype, **further: Any) -> None:
        super().__init__()
        self.dtype, self.further = dtype, further

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        given = (x.to(self.dtype) for x in (q, k, v))
        return functional.scaled_dot_product_attention(*given, **self.further).to(q.dtype)


def heads(*lengths: int, dtype: torch.dtype = torch.float32, counts: tuple[int, ...] = (2, 2, 2)) -> list[Tensor]:
    """Return heads of a width of 8 for queries, keys and values."""
    torch.manual_seed(0)
    return [torch.randn(2, count, length, 8).to(dtype) for count, length in zip(counts, lengths, strict=True)]


NEEDS_UPCAST = [torch.float16, torch.bfloat16]
MASK = torch.tensor([[True, False, True, True], [False] * 4, [True] * 4])
MASKS: list[Arguments] = [{}, {"is_causal": True}, {"attn_mask": MASK}, {"attn_mask": MASK.float()}]


@pytest.mark.parametrize("dtype", NEEDS_UPCAST)
@pytest.mark.parametrize("further", MASKS, ids=str)
def test_that_is_computed_in_float32_is_built(dtype: torch.dtype, further: Arguments) -> None:
    """TensorRT-RTX 1.6 ends the process where attention follows such a cast."""
    module, inputs = Heads(torch.float32, **further), heads(3, 4, 4, dtype=dtype)
    check_against_eager(lower_model(module, *inputs), module, *inputs)

    batches = ({0: Dim("batch", min=1, max=4)},) * 3
    check_against_eager(lower_model(module, *inputs, dynamic_shapes=batches), module, *inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("lengths", [(3, 7), (7, 3), (1, 5)], ids=str)
def test_that_is_causal_begins_at_the_first_key(dtype: torch.dtype, lengths: tuple[int, int]) -> None:
    """The converter would let the last query see the last key."""
    queries, keys = lengths
    module, inputs = Heads(dtype, is_causal=True), heads(queries, keys, keys, dtype=dtype)
    result = lower_model(module, *inputs)

    assert not any(True in node.args for node in attention_nodes(result))
    check_against_eager(result, module, *inputs)


def test_that_is_causal_begins_at_the_first_key_where_lengths_change() -> None:
    module, inputs = Heads(torch.float16, is_causal=True), heads(3, 7, 7, dtype=torch.float16)
    keys = Dim("keys", min=2, max=9)
    result = lower_model(module, *inputs, dynamic_shapes=({2: Dim("queries", min=2, max=9)}, {2: keys}, {2: keys}))

    assert not any(True in node.args for node in attention_nodes(result))
    check_against_eager(result, module, *heads(5, 4, 4, dtype=torch.float16))


def test_that_is_causal_stays_so_for_equal_lengths() -> None:
    inputs = heads(6, 6, 6, dtype=torch.float16)
    length = Dim("length", min=2, max=9)
    for shapes in (None, ({2: length},) * 3):
        (node,) = attention_nodes(lower_model(Heads(torch.float16, is_causal=True), *inputs, dynamic_shapes=shapes))
        assert True in node.args


@pytest.mark.parametrize("mask", [MASK, torch.where(MASK, 0.5, float("-inf"))], ids=["bool", "float32"])
def test_of_a_query_that_sees_nothing_is_zero(mask: Tensor) -> None:
    module, inputs = Heads(torch.float32, attn_mask=mask), heads(3, 4, 4)
    result = lower_model(module, *inputs)

    check_against_eager(result, module, *inputs)
    assert not result.run(*inputs)[0][:, :, 1].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_of_fewer_keys_than_queries(dtype: torch.dtype) -> None:
    module, inputs = Heads(dtype, enable_gqa=True), heads(5, 5, 5, dtype=dtype, counts=(4, 2, 2))
    check_against_eager(lower_model(module, *inputs), module, *inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_where_the_width_of_a_head_changes(dtype: torch.dtype) -> None:
    widths = ({3: Dim("width", min=2, max=16)},) * 3
    module, inputs = Heads(dtype), heads(4, 4, 4, dtype=dtype)
    result = lower_model(module, *inputs, dynamic_shapes=widths)

    check_against_eager(result, module, *(torch.cat([x, x], -1) for x in inputs))


def test_is_written_out_when_asked() -> None:
    result = lower_model(Attention(FURTHER["mask"]).eval().half(), X.half(), decompose_attention=True)

    assert attention_nodes(result) == []
