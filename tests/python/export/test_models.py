"""Models of every kind become as few engines as possible, with the right arguments and the right numbers."""

from __future__ import annotations

import pytest
import torch
from export_helpers import One, Three, check_against_eager, check_bindings, lower_model
from torch import nn
from torch.export import Dim

from models import CASES
from models.corner_cases import CORNERS
from torch_tensorrt_executorch_runtime.export import save


@pytest.mark.parametrize("name", CORNERS)
def test_becomes_one_engine(name):
    corner = CORNERS[name]

    result = lower_model(corner.make(), *corner.inputs, dynamic_shapes=corner.dynamic_shapes)

    assert len(result.blobs) == 1
    assert result.outside == {}
    check_bindings(result)
    eager = corner.make()
    for inputs in corner.calls:
        check_against_eager(result, eager, *inputs)


def test_renames_inputs_that_older_readers_would_take_for_keys():
    corner = CORNERS["names_that_are_json_keys"]

    (blob,) = lower_model(corner.make(), *corner.inputs).blobs

    names = {binding.name for binding in blob.metadata.inputs}
    assert names == {"input_aliased_io", "input_device_id", "input_shape"}


# Half precision gives the same graphs; the encoder has all the operators that depend on the type.
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in CASES] + [("encoder", torch.float16), ("encoder", torch.bfloat16)],
    ids=str,
)
def test_shared_models_have_the_engines_that_they_promise(name, dtype):
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


def test_binds_inputs_by_identity_in_any_order_of_use():
    import itertools

    def used(order):
        def function(x, y, z):
            first, second, third = (value for _, value in sorted(zip(order, (x, y, z), strict=True)))
            return (first - second) * 2 + third

        return function

    inputs = tuple(torch.randn(3, 4).unbind())
    for order in list(itertools.permutations(range(3)))[1:6:2]:
        module = Three(used(order))
        result = lower_model(module, *inputs)
        assert sorted(binding.name for binding in result.blobs[0].metadata.inputs) == ["x", "y", "z"]
        check_against_eager(result, module, *inputs)


BATCH = Dim("batch", min=1, max=8)
LENGTH = Dim("length", min=2, max=32)


def test_computes_dynamic_sizes_inside_of_every_engine():
    module = One(
        lambda x: torch.cos(torch.erfinv(torch.tanh(x.view(x.shape[0] * 2, -1))).view(x.shape[0], -1) * x.shape[0])
    )

    result = lower_model(module, torch.randn(4, 8), dynamic_shapes=({0: BATCH},))

    assert len(result.blobs) == 2
    check_bindings(result)
    for size in (2, 5, 8):
        check_against_eager(result, module, torch.randn(size, 8))


def test_a_returned_size_is_computed_outside():
    module = One(lambda x: (x * 2, x.shape[0]))

    result = lower_model(module, torch.randn(3, 4), dynamic_shapes=({0: BATCH},))

    assert len(result.blobs) == 1
    check_bindings(result)
    check_against_eager(result, module, torch.randn(5, 4))


def test_equal_methods_share_one_engine_in_the_file(tmp_path):
    module = nn.Linear(64, 64).eval()
    source = {name: torch.export.export(module, (torch.randn(2, 64),)) for name in ("first", "second")}

    report = save(source, tmp_path / "model.pte")

    assert len(report.engines) == 2
    assert report.engines[0].sha256 == report.engines[1].sha256
    assert report.files[0].size_bytes < 1.5 * report.engines[0].size_bytes


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
