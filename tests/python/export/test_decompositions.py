"""Operators that TensorRT has no converter for are written with others, and stay in the engine."""

from __future__ import annotations

import pytest
import torch
from export_helpers import One, check_against_eager, lower_model
from torch.export import Dim
from torch.nn import functional

X = torch.randn(2, 3, 8, 9)


def masked_attention(x):
    """Attention whose values are wider than its keys, which is decomposed, with a row that sees nothing."""
    mask = torch.ones(8, 8, dtype=torch.bool).tril()
    mask[3] = False
    return functional.scaled_dot_product_attention(x[..., :4], x[..., 4:8], x, attn_mask=mask)


INSIDE = {
    "exp2": torch.exp2,
    "eye": lambda x: torch.eye(8) @ x,
    "eye_of_two_sizes": lambda x: x @ torch.eye(9, 4),
    "eye_of_integers": lambda x: x[..., :8] + torch.eye(8, dtype=torch.int64),
    "var_mean": lambda x: torch.var_mean(x, (2, 3)),
    "var_mean_of_all": torch.var_mean,
    "var_keeping_dimensions": lambda x: x.var((1, -1), keepdim=True),
    "var_keeping_all_dimensions": lambda x: x.var(keepdim=True),
    "std_keeping_dimensions": lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
    "std_mean": lambda x: torch.std_mean(x, 1, correction=0, keepdim=True),
    "adaptive_max_pool_to_one": lambda x: functional.adaptive_max_pool2d(x, 1),
    "adaptive_max_pool": lambda x: functional.adaptive_max_pool2d(x, (4, 3)),
    "ceil_mode": lambda x: functional.max_pool2d(x, 3, 2, ceil_mode=True),
    "ceil_mode_with_padding": lambda x: functional.max_pool2d(x, 3, 2, padding=1, ceil_mode=True),
    "ceil_mode_without_effect": lambda x: functional.max_pool2d(x, (2, 3), (2, 3), ceil_mode=True),
    "ceil_mode_in_one_direction": lambda x: functional.max_pool2d(x, (3, 1), (3, 1), ceil_mode=True),
    "ceil_mode_beyond_the_padding": lambda x: functional.max_pool2d(x, 2, 3, padding=1, ceil_mode=True),
    "mean_with_ceil_mode": lambda x: functional.avg_pool2d(x, 3, 2, ceil_mode=True),
    "mean_with_ceil_mode_and_padding": lambda x: functional.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True),
    "mean_of_pixels_with_ceil_mode": lambda x: functional.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False),
    "mean_of_pixels_with_ceil_mode_and_padding": lambda x: functional.avg_pool2d(
        x, (2, 3), 2, padding=1, ceil_mode=True, count_include_pad=False
    ),
    "mean_with_ceil_mode_without_effect": lambda x: functional.avg_pool2d(x, (2, 3), (2, 3), ceil_mode=True),
    "mean_with_its_own_divisor": lambda x: functional.avg_pool2d(x, 3, 2, padding=1, divisor_override=5),
    "mean_in_one_dimension": lambda x: functional.avg_pool1d(x[0], 2, 2, ceil_mode=True),
    "attention_with_a_row_that_sees_nothing": masked_attention,
}


@pytest.mark.parametrize("name", INSIDE)
def test_stays_in_one_engine(name):
    module = One(INSIDE[name])
    result = lower_model(module, X)

    assert (len(result.blobs), result.outside) == (1, {})
    check_against_eager(result, module, X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_keeps_the_type(dtype):
    module, x = (
        One(
            lambda x: (
                functional.max_pool2d(x, 3, 2, ceil_mode=True)
                + functional.avg_pool2d(x, 3, 2, ceil_mode=True)
                + torch.eye(4, dtype=x.dtype)
            )
        ),
        X.to(dtype),
    )
    result = lower_model(module, x)

    assert result.outside == {}
    check_against_eager(result, module, x)


def test_batch_may_change():
    module = One(lambda x: functional.max_pool2d(x * 2, 3, 2, ceil_mode=True))
    result = lower_model(module, X, dynamic_shapes=({0: Dim("batch", min=1, max=4)},))

    assert result.outside == {}
    for batch in (1, 4):
        check_against_eager(result, module, torch.randn(batch, 3, 8, 9))


OUTSIDE = {
    "ceil_mode_on_integers": (
        lambda x: functional.max_pool2d((x * 9).to(torch.int64), 3, 2, ceil_mode=True),
        "aten.max_pool2d_with_indices.default",
    ),
    "dilated_pool": (lambda x: functional.max_pool2d(x, 3, 1, dilation=2), "aten.max_pool2d_with_indices.default"),
    "adaptive_max_pool_of_unequal_parts": (
        lambda x: functional.adaptive_max_pool2d(x, 3),
        "aten.adaptive_max_pool2d.default",
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_converters_refuse_stays_outside_and_is_named(name):
    compute, operator = OUTSIDE[name]
    result = lower_model(One(lambda x: compute(x * 2)), X)

    assert list(result.outside) == [operator]
    check_against_eager(result, One(lambda x: compute(x * 2)), X)


def test_leaves_padding_to_the_convolution_behind_it():
    module = One(lambda x: functional.conv2d(functional.pad(x, (0, 1, 0, 1)), torch.ones(4, 3, 3, 3), stride=2))
    result = lower_model(module, X)

    lowered = result.given()
    assert [str(node.target) for node in lowered.graph.nodes if node.op == "call_function"] == [
        "tensorrt.conv_asym_pad.default"
    ]
    check_against_eager(result, module, X)
