"""Batch normalisation is folded into the convolution before it, where that costs no precision."""

from __future__ import annotations

import pytest
import torch
from export_helpers import Result, check_against_eager, check_bindings, lower_model
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from models import relative_error
from torch_tensorrt_executorch_runtime.export._options import BuildOptions


def normalized(convolution: nn.Module, norm: nn.Module) -> nn.Sequential:
    """Return both in a row, the normalisation with statistics and weights that all matter."""
    torch.manual_seed(0)
    for name, values in [*norm.named_buffers(), *norm.named_parameters()]:
        if name != "num_batches_tracked":
            nn.init.uniform_(values, 0.5, 2.0)
    return nn.Sequential(convolution, norm).eval()


class Padded(nn.Module):
    """A convolution that the padding before it becomes a part of."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(functional.pad(x, (1, 2, 0, 1)))


class Shared(nn.Module):
    """One convolution with two normalisations."""

    def __init__(self) -> None:
        super().__init__()
        self.first = normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        self.second = normalized(self.first[0], nn.BatchNorm2d(8))
        nn.init.uniform_(self.second[1].running_mean, 3, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.first(x) + self.second(y)


class UsedTwice(nn.Module):
    """A convolution whose result is also used as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.convolution(x)
        return self.norm(y) + y


class OwnWeights(nn.Module):
    """A convolution whose weights are an input."""

    def __init__(self) -> None:
        super().__init__()
        _, self.norm = normalized(nn.Identity(), nn.BatchNorm2d(8))

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return self.norm(functional.conv2d(x, weight))


X = torch.randn(2, 3, 9, 8)
FOLDED = {
    "convolution": (normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), (X,)),
    "no bias": (normalized(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)), (X,)),
    "no weights": (normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, affine=False)), (X,)),
    "another epsilon": (normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, eps=0.5)), (X,)),
    "depthwise": (normalized(nn.Conv2d(3, 3, 3, groups=3), nn.BatchNorm2d(3)), (X,)),
    "grouped": (normalized(nn.Conv2d(4, 8, 3, groups=2), nn.BatchNorm2d(8)), (torch.randn(1, 4, 6, 6),)),
    "one dimension": (normalized(nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8)), (torch.randn(2, 3, 9),)),
    "three dimensions": (normalized(nn.Conv3d(3, 8, 3), nn.BatchNorm3d(8)), (torch.randn(1, 3, 4, 5, 6),)),
    "padded": (Padded(), (X,)),
    "shared": (Shared(), (X, X + 1)),
}
KEPT = {
    "used twice": (UsedTwice(), (X,)),
    "weights are an input": (OwnWeights(), (X, torch.randn(8, 3, 3, 3))),
    "transposed": (normalized(nn.ConvTranspose2d(3, 8, 3), nn.BatchNorm2d(8)), (X,)),
    "nothing before": (normalized(nn.Identity(), nn.BatchNorm2d(3)), (X,)),
    "activation between": (normalized(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), nn.BatchNorm2d(8)), (X,)),
}


def norms(result: Result) -> int:
    """Count the normalisations that TensorRT is given."""
    module = result.given()
    return sum("batch_norm" in str(node.target) for node in module.graph.nodes)


@pytest.mark.parametrize("name", FOLDED)
def test_is_folded(name):
    module, inputs = FOLDED[name]
    result = lower_model(module.eval(), *inputs)

    assert norms(result) == 0
    check_against_eager(result, module, *inputs)
    check_bindings(result)


@pytest.mark.parametrize("name", KEPT)
def test_stays_where_it_is_not_alone_with_a_convolution(name):
    module, inputs = KEPT[name]
    result = lower_model(module.eval(), *inputs)

    assert norms(result) == 1
    check_against_eager(result, module, *inputs)


def test_is_folded_for_every_batch():
    module, _ = FOLDED["convolution"]
    result = lower_model(module, X, dynamic_shapes=({0: Dim("batch", min=1, max=4)},))

    assert norms(result) == 0
    for batch in (1, 4):
        check_against_eager(result, module, torch.randn(batch, 3, 9, 8))


def test_is_folded_before_float32_is_split():
    module, _ = FOLDED["convolution"]
    result = lower_model(module, X, disable_tf32=True)
    (actual,) = result.run(X, options=BuildOptions(disable_tf32=True))

    assert relative_error(actual, module(X)) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_costs_half_precision_nothing(dtype):
    exact, _ = FOLDED["convolution"]
    module = normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to(dtype)
    module.load_state_dict(exact.state_dict())
    exact = normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).double()
    exact.load_state_dict(module.state_dict())
    x = X.to(dtype)
    result = lower_model(module, x)
    (actual,) = result.run(x)

    assert norms(result) == 0
    assert relative_error(actual, exact(x.double())) < 1.5 * relative_error(module(x), exact(x.double()))


# What multiplies and what is added, the mean, and how many normalisations are left.
EXTREMES = {
    "folded, since the shift hides what is lost": (1e-5, 1.0, 0.0, 0),
    "kept, since few bits would be left": (1e-5, 0.0, 0.0, 1),
    "kept, since the weights would be infinite": (6e4, 0.0, 0.0, 1),
    "kept, since the shift would be infinite": (10.0, 0.0, 6e4, 1),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_stays_where_half_precision_cannot_hold_what_is_folded(name):
    scale, shift, mean, kept = EXTREMES[name]
    convolution, norm = normalized(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    nn.init.uniform_(convolution.weight, 1.5, 2.0)
    for values, value in ((norm.weight, scale), (norm.bias, shift), (norm.running_mean, mean), (norm.running_var, 1.0)):
        nn.init.constant_(values, value)
    result = lower_model(nn.Sequential(convolution, norm).half().eval(), X.half())

    assert norms(result) == kept
