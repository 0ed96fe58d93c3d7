"""Deep convolutions of few pixels are computed in groups of channels, and give the same numbers."""

from __future__ import annotations

import pytest
import torch
from export_helpers import Result, check_against_eager, check_bindings, lower_model
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from models import relative_error
from torch_tensorrt_executorch_runtime.export._options import BuildOptions


class Padded(nn.Module):
    """A convolution that the padding before it becomes a part of."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(256, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(functional.pad(x, (1, 0, 1, 0)))


class OwnBias(nn.Module):
    """A convolution whose bias is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 256, 3, 3))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, bias)


X = torch.randn(1, 256, 7, 7)
SPLIT = {
    "3x3": (nn.Conv2d(256, 8, 3, padding=1), X),
    "no bias": (nn.Conv2d(256, 8, 3, padding=1, bias=False), X),
    "with a step": (nn.Conv2d(256, 8, 3, stride=2), torch.randn(1, 256, 15, 13)),
    "dilated": (nn.Conv2d(256, 8, 3, dilation=2), X),
    "1x1": (nn.Conv2d(2048, 8, 1), torch.randn(1, 2048, 3, 5)),
    "batch": (nn.Conv2d(256, 8, 3), torch.randn(4, 256, 6, 6)),
    "padded on two sides": (Padded(), X),
    "normalized": (nn.Sequential(nn.Conv2d(256, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()).eval(), X),
}
WHOLE = {
    "many pixels": (nn.Conv2d(256, 8, 3), torch.randn(1, 256, 11, 10)),
    "large batch": (nn.Conv2d(256, 8, 3), torch.randn(3, 256, 7, 7)),
    "few products": (nn.Conv2d(128, 8, 3), torch.randn(1, 128, 7, 7)),
    "channels that give no groups": (nn.Conv2d(320, 8, 3), torch.randn(1, 320, 7, 7)),
    "groups of its own": (nn.Conv2d(512, 8, 3, groups=2), torch.randn(1, 512, 7, 7)),
    "transposed": (nn.ConvTranspose2d(256, 8, 3), torch.randn(1, 256, 4, 4)),
    "one dimension": (nn.Conv1d(256, 8, 9), torch.randn(1, 256, 20)),
}


def groups(result: Result) -> int:
    """Return the number of groups of the convolution that TensorRT is given."""
    module = result.given()
    (convolution,) = (node for node in module.graph.nodes if "conv" in str(node.target))
    return convolution.args[-1]


@pytest.mark.parametrize("name", SPLIT)
def test_are_split(name):
    module, x = SPLIT[name]
    result = lower_model(module, x)

    assert groups(result) == 4
    check_against_eager(result, module, x)
    check_bindings(result)


@pytest.mark.parametrize("name", WHOLE)
def test_stay_whole_where_that_is_as_fast(name):
    module, x = WHOLE[name]
    result = lower_model(module, x)

    assert groups(result) == (2 if name == "groups of its own" else 1)
    check_against_eager(result, module, x)


def test_stay_whole_where_the_bias_is_an_input():
    inputs = X, torch.randn(8)
    result = lower_model(OwnBias(), *inputs)

    assert groups(result) == 1


def test_stay_whole_where_the_batch_changes():
    module = nn.Conv2d(256, 8, 3)
    result = lower_model(module, torch.randn(2, 256, 3, 3), dynamic_shapes=({0: Dim("batch", min=1, max=4)},))

    assert groups(result) == 1
    check_against_eager(result, module, torch.randn(4, 256, 3, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cost_half_precision_little(dtype):
    torch.manual_seed(0)
    module, x = nn.Conv2d(512, 64, 3, padding=1).to(dtype), torch.randn(1, 512, 7, 7).to(dtype)
    exact = nn.Conv2d(512, 64, 3, padding=1).double()
    exact.load_state_dict(module.state_dict())
    result = lower_model(module, x)
    (actual,) = result.run(x)

    assert groups(result) == 4
    assert actual.dtype == dtype
    assert relative_error(actual, exact(x.double())) < 2 * torch.finfo(dtype).eps


def test_are_split_before_float32_is():
    module, x = SPLIT["3x3"]
    result = lower_model(module, x, disable_tf32=True)
    (actual,) = result.run(x, options=BuildOptions(disable_tf32=True))

    assert relative_error(actual, module(x)) < 1e-5
