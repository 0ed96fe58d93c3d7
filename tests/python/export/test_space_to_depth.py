"""Convolutions that step over pixels read blocks of them, where that pays, and give the same numbers."""

from __future__ import annotations

import pytest
import torch
from export_helpers import Result, check_against_eager, check_bindings, lower_model
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional


class Padded(nn.Module):
    """A convolution whose padding differs from side to side, which becomes an operator of Torch-TensorRT's own."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 7, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(functional.pad(x, (1, 2, 3, 0)))


class Transposed(nn.Module):
    """A convolution of an image that lies otherwise in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 4, stride=4)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.transpose(2, 3))


class OwnWeights(nn.Module):
    """A convolution whose weights are an input."""

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.conv2d(x, weight, stride=2)


BLOCKS = {
    "stem of ResNet": (nn.Conv2d(3, 8, 7, stride=2, padding=3), (2, 3, 20, 24)),
    "odd image": (nn.Conv2d(3, 8, 7, stride=2, padding=3), (1, 3, 21, 19)),
    "no padding": (nn.Conv2d(3, 8, 7, stride=2), (1, 3, 20, 23)),
    "no bias": (nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False), (1, 3, 16, 16)),
    "grey": (nn.Conv2d(1, 8, 9, stride=2, padding=4), (1, 1, 16, 16)),
    "four channels": (nn.Conv2d(4, 8, 8, stride=2, padding=1), (1, 4, 17, 16)),
    "two paddings": (nn.Conv2d(3, 8, (7, 3), stride=2, padding=(3, 1)), (1, 3, 16, 18)),
    "padding on one side": (Padded(), (1, 3, 20, 21)),
    "patches": (nn.Conv2d(3, 8, 4, stride=4), (2, 3, 16, 20)),
    "patches of a larger image": (nn.Conv2d(3, 8, 16, stride=16), (1, 3, 35, 49)),
    "patches that lie apart": (nn.Conv2d(3, 8, 3, stride=5), (1, 3, 16, 20)),
    "AlexNet": (nn.Conv2d(3, 8, 11, stride=4, padding=2), (1, 3, 63, 64)),
    "last pixels unread": (nn.Conv2d(3, 8, 8, stride=4), (1, 3, 27, 26)),
    "same padding": (nn.Conv2d(3, 8, (5, 8), stride=4, padding=(2, 3)), (1, 3, 30, 33)),
    "other layout": (Transposed(), (1, 3, 16, 20)),
}

UNTOUCHED = {
    "small kernel": (nn.Conv2d(3, 8, 3, stride=2, padding=1), (1, 3, 16, 16)),
    "no step": (nn.Conv2d(3, 8, 7, padding=3), (1, 3, 16, 16)),
    "two steps": (nn.Conv2d(3, 8, 7, stride=(2, 4)), (1, 3, 16, 16)),
    "many channels": (nn.Conv2d(5, 8, 7, stride=2), (1, 5, 16, 16)),
    "groups": (nn.Conv2d(4, 8, 7, stride=2, groups=2), (1, 4, 16, 16)),
    "dilation": (nn.Conv2d(3, 8, 7, stride=2, dilation=2), (1, 3, 16, 16)),
    "transposed": (nn.ConvTranspose2d(3, 8, 7, stride=2), (1, 3, 9, 9)),
    "one dimension": (nn.Conv1d(3, 8, 7, stride=2), (1, 3, 16)),
    "three dimensions": (nn.Conv3d(3, 8, 7, stride=2), (1, 3, 8, 8, 8)),
}


def channels(result: Result) -> list[int]:
    """Return the number of channels that every convolution reads that TensorRT is given."""
    module = result.given()
    return [node.args[0].meta["val"].shape[1] for node in module.graph.nodes if "conv" in str(node.target)]


@pytest.mark.parametrize("name", BLOCKS)
def test_reads_blocks_of_pixels(name):
    module, shape = BLOCKS[name]
    x = torch.randn(shape)
    result = lower_model(module, x)

    (read,) = channels(result)
    assert read % 8 == 0 and read >= 4 * min(shape[1:2])
    check_against_eager(result, module, x)
    check_bindings(result)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reads_blocks_of_half_precision(dtype):
    module, x = nn.Conv2d(3, 8, 16, stride=16).to(dtype), torch.randn(1, 3, 32, 48).to(dtype)
    result = lower_model(module, x)

    assert channels(result) == [3 * 16 * 16]
    check_against_eager(result, module, x)


@pytest.mark.parametrize("name", UNTOUCHED)
def test_reads_pixels_where_blocks_do_not_pay(name):
    module, shape = UNTOUCHED[name]
    x = torch.randn(shape)
    result = lower_model(module, x)

    assert channels(result) == [shape[1]]
    check_against_eager(result, module, x)


def test_weights_may_be_an_input():
    inputs = torch.randn(1, 3, 16, 16), torch.randn(8, 3, 7, 7)
    result = lower_model(OwnWeights(), *inputs)

    assert channels(result) == [3]
    check_against_eager(result, OwnWeights(), *inputs)


def test_batch_may_change():
    module, x = nn.Conv2d(3, 8, 7, stride=2, padding=3), torch.randn(2, 3, 16, 16)
    result = lower_model(module, x, dynamic_shapes=({0: Dim("batch", min=1, max=8)},))

    assert channels(result) == [16]
    for batch in (1, 2, 8):
        check_against_eager(result, module, torch.randn(batch, 3, 16, 16))


def test_size_of_the_image_may_change():
    module, x = nn.Conv2d(3, 8, 7, stride=2, padding=3), torch.randn(1, 3, 16, 16)
    result = lower_model(module, x, dynamic_shapes=({2: Dim("height", min=8, max=64)},))

    assert channels(result) == [3]
    for height in (8, 33, 64):
        check_against_eager(result, module, torch.randn(1, 3, height, 16))


def test_one_weight_may_serve_two_convolutions():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 8, 4, stride=4)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.convolution(x).mean((2, 3)) + self.convolution(y).mean((2, 3))

    module, inputs = Twice(), (torch.randn(1, 3, 16, 16), torch.randn(1, 3, 8, 20))
    result = lower_model(module, *inputs)

    assert channels(result) == [48, 48]
    check_against_eager(result, module, *inputs)
