"""Small models at the edges of what an engine can be: each becomes one engine and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Corner:
    """A model and the inputs of consecutive calls; the first ones are the example of the export.

    ``make`` gives a fresh module each time, because some of them keep state.
    """

    make: Callable[[], nn.Module]
    calls: tuple[tuple[Tensor, ...], ...]
    dynamic_shapes: Any = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.calls[0]


class _Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function


class One(_Function):
    def forward(self, x):
        return self._function(x)


class Two(_Function):
    def forward(self, x, y):
        return self._function(x, y)


class Three(_Function):
    def forward(self, x, y, z):
        return self._function(x, y, z)


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return functional.max_pool2d(torch.relu(self.norm(self.convolution(x))), 2)


def _pyramid(x):
    """Join an image with what two poolings in a row make of it, as detectors do."""
    y = functional.max_pool2d(x, 5, stride=1, padding=2)
    return torch.cat([x, y, functional.max_pool2d(y, 5, stride=1, padding=2)], 1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.cell = nn.GRU(16, 16, batch_first=True)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, tokens):
        y, _ = self.cell(self.embedding(tokens))
        y = self.norm(y.transpose(1, 2))
        return torch.log_softmax(y, 1), y.var(1)


class State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(4) * 3)
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x)
        self.calls.add_(1)
        return self.mean.clone(), self.calls * 2


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))

    def forward(self, x, position):
        self.keys.index_copy_(2, position, x)
        return x.sum(-1), self.keys.mean()


class MixedFloats(nn.Module):
    """A bfloat16 convolution with a float32 bias, and a half-precision layer with a float32 0-D bias."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, bias=False).bfloat16()
        self.bias = nn.Parameter(torch.randn(4, 1, 1))
        self.linear = nn.Linear(4, 3).half()

    def forward(self, image, x, y):
        return self.convolution(image) + self.bias, self.linear(x) + y


class JsonKeys(nn.Module):
    def forward(self, aliased_io, device_id, shape):
        return aliased_io + device_id * shape


_INTEGER_OPERATORS: dict[str, Callable[[Tensor], Any]] = {
    **{
        name: getattr(torch, name)
        for name in ["abs", "sign", "square", "relu", "floor", "ceil", "round", "trunc", "sum"]
    },
    **{name: getattr(torch, name) for name in ["isnan", "isinf", "logical_not", "tril"]},
    "cube": lambda x: x**3,
    "clamp": lambda x: x.clamp(-5, 7),
    "sum_of_a_row": lambda x: x.sum(1),
    "sort": lambda x: torch.sort(x, 1),
    "indices_in_arithmetic": lambda x: torch.topk(x, 2)[1] * 2**33,
    "any": lambda x: x.any(1),
    "remainder": lambda x: torch.remainder(x, 3),
    "fmod": lambda x: torch.fmod(x, 3),
    "trunc_division": lambda x: torch.div(x, 3, rounding_mode="trunc"),
    "floor_division": lambda x: x // 5,
    "pad": lambda x: functional.pad(x, (1, 1), value=9),
    "masked_fill": lambda x: x.masked_fill(x > 2, 4),
    "where": lambda x: torch.where(x > 2, x, -3 * x.abs()),
    "fraction_below": lambda x: x < 0.5,
    "fraction_at_least": lambda x: x >= -0.5,
    "fraction_times": lambda x: x * 0.75,
    "range": lambda x: x + torch.arange(3) * 2**31,
    "bits": lambda x: (x > 2).sum(1) * 2**31,
}


class IntegerOperators(nn.Module):
    """Every operator by itself on the same integers, beside a float so that engines always have a reason."""

    def forward(self, x, bias):
        return bias + 1, [function(x) for function in _INTEGER_OPERATORS.values()]


def _seeded(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return make().eval()

    return build


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _twice(x):
    y = x * 2
    return y, y


def _same_value(x):
    y = x * 2
    return y, y.view(1, 3), y * 1, y.clone()


def _scalars(x):
    return x.sum(), x.argmax(), (x > 0).any(), x.sum(0, keepdim=True)


def _from_scalars(x, n, choose):
    return torch.where(choose, x, -x) * 2, n * 2**33, torch.logical_not(choose)


def _gathered(x, index):
    return x.gather(1, index), x[:, index[0]]


def _corner(make: Callable[[], nn.Module], *inputs: Tensor) -> Corner:
    return Corner(_seeded(make), (inputs,))


def _tokens_of_attention(x, y, z):
    return functional.scaled_dot_product_attention(x, y, z).transpose(1, 2).flatten(2)


def _float32_attention(x, y, z):
    return functional.scaled_dot_product_attention(x.float(), y.float(), z.float(), is_causal=True).half()


_BATCH = {0: torch.export.Dim("batch", min=1, max=8)}


def _dynamic(function: Callable[..., Any], width: int = 4) -> Corner:
    calls = tuple((_random(size, width, seed=size),) for size in (3, 8, 1, 5))
    return Corner(lambda: One(function), calls, (_BATCH,))


CORNERS = {
    "pool_without_indices": _corner(Pooled, _random(1, 3, 8, 8)),
    "pools_joined": _corner(lambda: One(_pyramid), _random(1, 3, 8, 8)),
    "embedding_gru_norm": _corner(Recurrent, torch.tensor([[3, 1, 4, 1, 5], [49, 0, 7, 9, 2]])),
    "mutable_buffers": Corner(State, tuple((_random(4, seed=seed),) for seed in range(4))),
    "cache": Corner(Cache, tuple((_random(1, 2, 1, 4, seed=i), torch.tensor([i])) for i in (1, 3, 1))),
    "attention": _corner(
        lambda: Three(lambda x, y, z: functional.scaled_dot_product_attention(x, y, z, is_causal=True)),
        *_random(3, 1, 2, 4, 8).unbind(),
    ),
    "attention_of_other_lengths": _corner(
        lambda: Three(lambda x, y, z: functional.scaled_dot_product_attention(x[:, :, :2], y, z, is_causal=True)),
        *_random(3, 1, 2, 5, 8).unbind(),
    ),
    "attention_in_half_precision": _corner(
        lambda: Three(_tokens_of_attention), *_random(3, 2, 2, 20, 32).half().unbind()
    ),
    "attention_in_float32": _corner(lambda: Three(_float32_attention), *_random(3, 1, 2, 4, 8).half().unbind()),
    "upsampling": _corner(
        lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.ConvTranspose2d(3, 4, 2), nn.PixelShuffle(2)),
        _random(1, 3, 4, 4),
    ),
    "input_returned": _corner(lambda: One(lambda x: (x + 1, x)), _random(3)),
    "input_returned_first": _corner(lambda: One(lambda x: (x, x.t() + 1, x + 1)), _random(3, 2)),
    "mask_returned": _corner(lambda: One(lambda m: (m, torch.logical_not(m))), torch.tensor([True, False, True])),
    "dropout_without_effect": _corner(
        lambda: One(lambda x: (functional.dropout(x, training=False), x + 1)), _random(3)
    ),
    "output_returned_twice": _corner(lambda: One(_twice), _random(3)),
    "outputs_of_one_value": _corner(lambda: One(_same_value), _random(3)),
    "outputs_of_equal_shape": _corner(lambda: One(lambda x: (x - 1, x * 3, x.sin(), -x)), _random(3)),
    "unused_input": _corner(lambda: Two(lambda x, y: x * 2), _random(3), _random(4)),
    "constant_output": _corner(lambda: One(lambda x: (x + 1, torch.ones(3))), _random(3)),
    "int64_beyond_32_bits": _corner(lambda: One(lambda x: (x + 2**40) * 3 - 1), torch.tensor([1, 2**31, 2**33])),
    "int64_chosen": _corner(
        lambda: Two(lambda x, y: torch.where(x > y, x - y, x * 3)),
        torch.tensor([0, 2**31, -(2**31) - 1, 2**40, 2**53 + 1, -(2**62)]),
        torch.tensor([5, 1, 1, -(2**40), 7, 2**62]),
    ),
    "int64_gathered": _corner(
        lambda: Two(_gathered),
        torch.tensor([[1, 2**40, -(2**33)], [5, 2**31, 2**53 + 1]]),
        torch.tensor([[2, 1], [0, 2]]),
    ),
    "int64_masked": _corner(lambda: One(lambda x: x.masked_fill(x * 2 > 7, 5)), torch.tensor([1, 2**33, 2**35])),
    "int32_beyond_24_bits": _corner(
        lambda: One(lambda x: (x * 3 - 1, x.clamp(0, 2**25 + 1), x // 7)),
        torch.tensor([2**24 + 1, -5, 2**28 + 3]).int(),
    ),
    "int64_operators": _corner(
        IntegerOperators, torch.tensor([[0, 2**40 + 1, -3], [4, -(2**33), 2**53 + 1]]), _random(3)
    ),
    "int32_operators": _corner(
        IntegerOperators,
        torch.tensor([[0, 2**24 + 1, -3], [2**31 - 1, 2**31 - 9, -(2**28) - 1]]).int(),
        _random(3),
    ),
    "gather": _corner(lambda: Two(lambda x, y: x.gather(1, y)), _random(2, 5), torch.tensor([[0, 1], [2, 3]])),
    "integer_index": _corner(lambda: Two(lambda x, y: x[y]), _random(5, 3), torch.tensor([0, 4, 2])),
    "bool_mask": _corner(lambda: Three(torch.where), torch.tensor([True, False, True]), _random(3), _random(3, seed=1)),
    "bool_operators": _corner(
        lambda: Two(lambda x, y: (x | y, x & y, x ^ y, ~x)),
        torch.tensor([True, False, True, False, True]),
        torch.tensor([True, True, False, False, True]),
    ),
    "bool_alone": Corner(lambda: One(lambda x: x > 0), tuple((_random(17, seed=seed),) for seed in range(2))),
    "scalars_out": Corner(lambda: One(_scalars), ((_random(5),), (_random(5).abs().neg(),))),
    "scalars_in": Corner(
        lambda: Three(_from_scalars),
        tuple(
            (torch.tensor(x), torch.tensor(n), torch.tensor(choose))
            for x, n, choose in ((1.5, 3, True), (2.5, -1, False))
        ),
    ),
    "split_in_three": _corner(lambda: One(lambda x: [part * 2 for part in x.chunk(3, 1)]), _random(2, 9)),
    "sort": _corner(lambda: One(lambda x: tuple(torch.sort(x, dim=1))), _random(2, 9)),
    "half_with_float32_scalar": _corner(lambda: Two(lambda x, y: x + y), _random(3).half(), torch.tensor(2.0)),
    "mixed_floats": _corner(MixedFloats, _random(1, 3, 8, 8).bfloat16(), _random(2, 4).half(), torch.tensor(2.5)),
    "empty_beside_full": _corner(
        lambda: Two(lambda x, y: (x.relu(), torch.cat([x, y]) * 2)), _random(0, 4), _random(2, 4)
    ),
    "empty_matrix_product": _corner(lambda: Two(lambda x, y: x @ y), _random(0, 4), _random(4, 3)),
    "sum_over_nothing": _corner(lambda: Two(lambda x, y: (x.sum(0), y * 2)), _random(0, 4), _random(2)),
    "channels_last_inside": _corner(
        lambda: One(
            lambda x: functional.conv2d(x.to(memory_format=torch.channels_last), torch.ones(2, 3, 3, 3)).relu()
        ),
        _random(1, 3, 8, 8),
    ),
    "channels_last_weights": _corner(
        lambda: nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last), _random(1, 3, 8, 8)
    ),
    "names_that_are_json_keys": _corner(JsonKeys, *_random(3, 3).unbind()),
    "dynamic_zeros": _dynamic(lambda x: torch.zeros(x.shape[0], 4) + x),
    "dynamic_range": _dynamic(lambda x: torch.arange(x.shape[0]) + x.sum(1)),
    "dynamic_reshape": _dynamic(lambda x: x.reshape(x.shape[0] * 2, -1).softmax(-1)),
    "dynamic_scale": _dynamic(lambda x: x * x.shape[0]),
}
"""Every case by name."""
