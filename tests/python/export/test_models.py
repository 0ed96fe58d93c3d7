"""Models of every kind become as few engines as possible, with the right arguments and the right numbers."""

from __future__ import annotations

import pytest
import torch
from export_helpers import One, Three, Two, check_against_eager, check_bindings, lower_model
from models import CASES
from torch import nn
from torch.export import Dim
from torch.nn import functional


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return functional.max_pool2d(torch.relu(self.norm(self.convolution(x))), 2)


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


def _twice(x):
    y = x * 2
    return y, y


def _same_value(x):
    y = x * 2
    return y, y.view(1, 3), y * 1, y.clone()


ONE_ENGINE = {
    "pool_without_indices": (Pooled().eval(), (torch.randn(1, 3, 8, 8),)),
    "embedding_gru_norm": (Recurrent().eval(), (torch.randint(0, 50, (2, 5)),)),
    "mutable_buffers": (State(), (torch.randn(4),)),
    "cache": (Cache(), (torch.randn(1, 2, 1, 4), torch.tensor([1]))),
    "attention": (
        Three(lambda x, y, z: functional.scaled_dot_product_attention(x, y, z, is_causal=True)),
        tuple(torch.randn(3, 1, 2, 4, 8).unbind()),
    ),
    "upsampling": (
        nn.Sequential(nn.Upsample(scale_factor=2), nn.ConvTranspose2d(3, 4, 2), nn.PixelShuffle(2)).eval(),
        (torch.randn(1, 3, 4, 4),),
    ),
    "input_returned": (One(lambda x: (x + 1, x)), (torch.randn(3),)),
    "output_returned_twice": (One(_twice), (torch.randn(3),)),
    "outputs_of_one_value": (One(_same_value), (torch.randn(3),)),
    "unused_input": (Two(lambda x, y: x * 2), (torch.randn(3), torch.randn(4))),
    "constant_output": (One(lambda x: (x + 1, torch.ones(3))), (torch.randn(3),)),
    "int64_beyond_32_bits": (One(lambda x: (x + 2**40) * 3 - 1), (torch.tensor([1, 2**31, 2**33]),)),
    "gather": (Two(lambda x, y: x.gather(1, y)), (torch.randn(2, 5), torch.tensor([[0, 1], [2, 3]]))),
    "integer_index": (Two(lambda x, y: x[y]), (torch.randn(5, 3), torch.tensor([0, 4, 2]))),
    "split_in_three": (One(lambda x: [part * 2 for part in x.chunk(3, 1)]), (torch.randn(2, 9),)),
    "sort": (One(lambda x: tuple(torch.sort(x, dim=1))), (torch.randn(2, 9),)),
    "half_with_float32_scalar": (Two(lambda x, y: x + y), (torch.randn(3).half(), torch.tensor(2.0))),
    "channels_last_inside": (
        One(lambda x: functional.conv2d(x.to(memory_format=torch.channels_last), torch.ones(2, 3, 3, 3)).relu()),
        (torch.randn(1, 3, 8, 8),),
    ),
    "channels_last_weights": (
        nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last).eval(),
        (torch.randn(1, 3, 8, 8),),
    ),
    "names_that_are_json_keys": (
        type(
            "Keys",
            (nn.Module,),
            {"forward": lambda self, aliased_io, device_id, shape: aliased_io + device_id * shape},
        )(),
        (torch.randn(3), torch.randn(3), torch.randn(3)),
    ),
}


@pytest.mark.parametrize("name", ONE_ENGINE)
def test_becomes_one_engine(name):
    module, inputs = ONE_ENGINE[name]

    result = lower_model(module, *inputs)

    assert len(result.blobs) == 1
    assert result.outside == {}
    check_bindings(result)
    check_against_eager(result, module, *inputs)


def test_renames_inputs_that_older_readers_would_take_for_keys():
    module, inputs = ONE_ENGINE["names_that_are_json_keys"]

    (blob,) = lower_model(module, *inputs).blobs

    names = {binding.name for binding in blob.metadata.inputs}
    assert names == {"input_aliased_io", "input_device_id", "input_shape"}


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, case in CASES.items() for dtype in case.dtypes], ids=str
)
def test_shared_models_have_the_engines_that_they_promise(name, dtype):
    if (name, dtype) == ("resnet18", torch.float16):
        pytest.skip("float32 shows the same graph, and this one takes ten seconds")
    case = CASES[name]
    engines = 0
    for method in case.methods(dtype).values():
        result = lower_model(method.export())
        engines += len(result.blobs)
        assert set(result.outside) == set(case.outside) if case.outside else True
        check_bindings(result)
        for inputs in method.calls[:3]:
            check_against_eager(result, method.module, *inputs)
    assert engines == case.engines


def test_leaves_erfinv_between_two_engines():
    module = One(lambda x: torch.cos(torch.erfinv(torch.tanh(x))))

    result = lower_model(module, torch.randn(4, 8))

    assert [entry.to_dict() for entry in result.lowered.outside] == [
        {"op": "aten.erfinv.default", "count": 1, "reason": "TensorRT has no converter"}
    ]
    assert [delegate.backend_id for delegate in result.delegates] == ["TensorRTBackend", "TensorRTBackend"]
    check_bindings(result)
    check_against_eager(result, module, torch.randn(4, 8))


def test_puts_a_shared_weight_into_both_engines():
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 8))

        def forward(self, x):
            return torch.erfinv(torch.tanh(x @ self.weight)) @ self.weight

    module = Shared()
    result = lower_model(module, torch.randn(2, 8))

    assert len(result.blobs) == 2
    assert [len(blob.metadata.inputs) for blob in result.blobs] == [1, 1]
    check_against_eager(result, module, torch.randn(2, 8))


def test_reorders_a_channels_last_input_outside():
    module = nn.Conv2d(3, 8, 3).eval()
    x = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)

    result = lower_model(module, x)

    assert len(result.blobs) == 1
    assert list(result.outside) == ["aten.clone.default"]
    check_against_eager(result, module, x)


def test_binds_inputs_by_identity_in_every_order_of_use():
    import itertools

    def used(order):
        def function(x, y, z):
            first, second, third = (value for _, value in sorted(zip(order, (x, y, z), strict=True)))
            return (first - second) * 2 + third

        return function

    inputs = tuple(torch.randn(3, 4).unbind())
    for order in itertools.permutations(range(3)):
        module = Three(used(order))
        result = lower_model(module, *inputs)
        assert sorted(binding.name for binding in result.blobs[0].metadata.inputs) == ["x", "y", "z"]
        check_against_eager(result, module, *inputs)


BATCH = Dim("batch", min=1, max=8)
LENGTH = Dim("length", min=2, max=32)


@pytest.mark.parametrize(
    ("function", "inputs", "engines"),
    [
        (lambda x: torch.zeros(x.shape[0], 4) + x, torch.randn(3, 4), 1),
        (lambda x: torch.arange(x.shape[0]) + x.sum(1), torch.randn(3, 4), 1),
        (lambda x: (x * 2, x.shape[0]), torch.randn(3, 4), 1),
        (lambda x: x.reshape(x.shape[0] * 2, -1).softmax(-1), torch.randn(3, 4), 1),
        (
            lambda x: torch.cos(torch.erfinv(torch.tanh(x.view(x.shape[0] * 2, -1))).view(x.shape[0], -1) * x.shape[0]),
            torch.randn(4, 8),
            2,
        ),
    ],
    ids=["zeros", "arange", "size_returned", "reshape", "sizes_on_both_sides"],
)
def test_computes_dynamic_sizes_inside_of_the_engines(function, inputs, engines):
    module = One(function)

    result = lower_model(module, inputs, dynamic_shapes=({0: BATCH},))

    assert len(result.blobs) == engines
    check_bindings(result)
    for size in (2, 5, 8):
        check_against_eager(result, module, torch.randn(size, inputs.shape[1]))


def test_profile_has_the_range_of_the_export_and_the_example_as_optimum():
    module = nn.Linear(16, 4).eval()

    result = lower_model(module, torch.randn(3, 5, 16), dynamic_shapes=({0: BATCH, 1: LENGTH},))

    (binding,) = result.blobs[0].metadata.inputs
    assert binding.shape == (-1, -1, 16)
    assert binding.profile is not None
    assert (binding.profile.min, binding.profile.opt, binding.profile.max) == ((1, 2, 16), (3, 5, 16), (8, 32, 16))


@pytest.mark.parametrize(("low", "high", "example"), [(1000, 1200, 1000), (100, 1200, 700), (2, 3, 3), (0, 8, 3)])
def test_optimum_lies_within_any_bounds(low, high, example):
    result = lower_model(
        One(lambda x: x.relu() * 2), torch.randn(example, 2), dynamic_shapes=({0: Dim("n", min=low, max=high)},)
    )

    profile = result.blobs[0].metadata.inputs[0].profile
    assert profile is not None
    assert (profile.min[0], profile.opt[0], profile.max[0]) == (low, example, high)


def test_derived_sizes_get_the_range_of_their_expression():
    module = One(lambda x: torch.cos(torch.erfinv(torch.tanh(x.reshape(-1, 2)))))

    result = lower_model(module, torch.randn(3, 4), dynamic_shapes=({0: BATCH},))

    profile = result.blobs[1].metadata.inputs[0].profile
    assert profile is not None
    assert (profile.min, profile.opt, profile.max) == ((2, 2), (6, 2), (16, 2))
