"""The PyTorch modules that the tests export. Each one is small, seeded by its caller and has a single job."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut, as ResNet-18 stacks them."""

    def __init__(self, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 for ``[batch, 3, 224, 224]`` with 1000 classes.

    Batch normalisation gets random statistics: with those of a fresh module (mean 0, variance 1) a swapped
    or dropped statistic would not show in the result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        widths = [64, 64, 128, 256, 512]
        blocks: list[nn.Module] = []
        for stage, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
            blocks += [
                BasicBlock(inputs, outputs, stride=1 if stage == 0 else 2),
                BasicBlock(outputs, outputs, stride=1),
            ]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, 1000)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.running_mean, std=0.1)
                nn.init.uniform_(module.running_var, 0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


class EncoderBlock(nn.Module):
    """One transformer encoder block for ``[batch, length, width]``: attention and feed-forward, both residual."""

    def __init__(self, *, width: int = 256, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class RelativeAttention(nn.Module):
    """Attention for ``[batch, 16, width]`` with a learned bias for each distance of tokens, repeated for batches."""

    def __init__(self, *, width: int = 64, heads: int = 4, length: int = 16) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.biases = nn.Parameter(torch.randn(2 * length - 1, heads))
        places = torch.arange(length)
        self.distances = nn.Buffer(places[:, None] - places + length - 1)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        bias = self.biases[self.distances].permute(2, 0, 1).expand(batch, -1, -1, -1)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class VisionTransformer(nn.Module):
    """A small vision transformer for ``[batch, 3, 64, 64]``, of PyTorch's own layers: patches, one block, a head."""

    def __init__(self, *, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        self.positions = nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.block = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, 100)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.block(tokens).mean(1))


class CosErfinvTanh(nn.Module):
    """TensorRT has no ``erfinv``: two engines with an operator of another backend between them."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cos(torch.erfinv(torch.tanh(x)))


class ThreeInputs(nn.Module):
    """Inputs of one shape and type, used in another order than the signature names them."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return (c - b) * 2 + a


class FourOutputs(nn.Module):
    """Four outputs of four types: float32, float16, int64 and bool."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return x * 2 + 1, x.to(torch.float16) * 0.5, x.argmax(dim=-1), x > 0.25


class Int64(nn.Module):
    """Arithmetic and comparison on int64; an int32 in between loses every value from 2**31 on."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + y, torch.where(x > y, x - y, x * 3)


class BoolLogic(nn.Module):
    """Logic on masks: three booleans in and out, and one that chooses between two float tensors."""

    def forward(self, a: Tensor, b: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        both = torch.logical_and(a, torch.logical_not(b))
        return both, torch.logical_or(a, b), torch.where(both, x, -x)


class ZeroDim(nn.Module):
    """A 0-D input that scales a vector, and a 0-D output."""

    def forward(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        return x * scale, scale * 2 + 1


class EmptyRows(nn.Module):
    """Rows that may be none at all: an empty tensor in and out, and one that is empty only until it is joined."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x), torch.cat([x, y]) * 2


class Project(nn.Module):
    """A linear layer with its activation; the ``encode`` half of the program with two methods."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))
