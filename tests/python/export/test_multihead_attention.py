"""PyTorch's own attention module reaches TensorRT without the detours of its views, and gives the same numbers."""

from __future__ import annotations

import pytest
import torch
from export_helpers import Result, check_against_eager, check_bindings, lower_model
from torch import Tensor, nn
from torch.export import Dim

WIDTH, HEADS = 24, 4
X, MEMORY = torch.randn(2, 5, WIDTH), torch.randn(2, 7, WIDTH)


class Attention(nn.Module):
    """Attention of a tensor to itself, or to another one."""

    def __init__(self, *, weights: bool = False, mask: bool = False, **options: bool | int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, **options)
        for bias in (self.attention.in_proj_bias, self.attention.out_proj.bias):
            if bias is not None:
                nn.init.normal_(bias)  # PyTorch begins with zeros, which would hide a bias that is left out
        self.weights, self.mask = weights, mask

    def forward(self, x: Tensor, *memory: Tensor) -> object:
        keys = memory[0] if memory else x
        values = memory[-1] if memory else x
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if self.mask else None
        result, weights = self.attention(x, keys, values, need_weights=self.weights, attn_mask=mask)
        return (result, weights) if self.weights else result


ATTENTION = {
    "batch first": (Attention(batch_first=True), (X,), 1),
    "length first": (Attention(batch_first=False), (X,), 1),
    "one of a batch": (Attention(batch_first=True), (X[:1],), 1),
    "no bias": (Attention(batch_first=True, bias=False), (X,), 1),
    "masked": (Attention(batch_first=True, mask=True), (X,), 1),
    "to another tensor": (Attention(batch_first=True), (X, MEMORY), 2),
    "to two other tensors": (Attention(batch_first=True), (X, MEMORY, MEMORY + 1), 3),
    "to narrow keys": (
        Attention(batch_first=True, kdim=8, vdim=12),
        (X, torch.randn(2, 7, 8), torch.randn(2, 7, 12)),
        3,
    ),
}


def targets(result: Result) -> list[str]:
    """Return the names of the operators that TensorRT is given."""
    module = result.given()
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("name", ATTENTION)
def test_takes_no_detour(name):
    module, inputs, projections = ATTENTION[name]
    result = lower_model(module.eval(), *inputs)

    found = targets(result)
    assert not [target for target in found if any(word in target for word in ("select", "squeeze", "split"))]
    assert sum("linear" in target for target in found) == projections + 1
    check_against_eager(result, module, *inputs)
    check_bindings(result)


def test_gives_weights_too():
    module = Attention(batch_first=True, weights=True).eval()
    result = lower_model(module, X)

    assert not [target for target in targets(result) if "select" in target]
    check_against_eager(result, module, X)


@pytest.mark.parametrize("batch_first", [True, False])
def test_takes_no_detour_whatever_the_sizes(batch_first):
    module = Attention(batch_first=batch_first).eval()
    batch, length = Dim("batch", min=1, max=4), Dim("length", min=2, max=16)
    shapes = {0: batch, 1: length} if batch_first else {0: length, 1: batch}
    result = lower_model(module, torch.randn(3, 3, WIDTH), dynamic_shapes={"x": shapes})

    assert not [target for target in targets(result) if "select" in target]
    for sizes in ((2, 3), (4, 4)):
        check_against_eager(result, module, torch.randn(*sizes, WIDTH))


@pytest.mark.parametrize("decompose_attention", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_layers_of_a_transformer_take_no_detour(batch_first, decompose_attention):
    torch.manual_seed(0)
    options = {"batch_first": batch_first, "norm_first": True}
    encoder = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, **options).eval()
    decoder = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, **options).eval()

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = encoder, decoder

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.decoder(x, self.encoder(y))

    inputs = (X, MEMORY) if batch_first else (X.transpose(0, 1), MEMORY.transpose(0, 1))
    module = Both().eval()
    result = lower_model(module, *inputs, decompose_attention=decompose_attention)

    assert not [target for target in targets(result) if "select" in target]
    check_against_eager(result, module, *inputs)


class LearnedQueries(nn.Module):
    """Queries, or all three, that do not depend on the input, as detectors and resamplers have them."""

    def __init__(self, *, all_three: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.queries = nn.Parameter(torch.randn(1, 6, WIDTH))
        self.all_three = all_three

    def forward(self, x: Tensor) -> Tensor:
        queries = self.queries.expand(x.shape[0], -1, -1)
        memory = queries if self.all_three else x
        return self.attention(queries, memory, memory, need_weights=False)[0] + x.mean(1, keepdim=True)


@pytest.mark.parametrize("all_three", [False, True])
def test_queries_may_be_learned(all_three):
    module = LearnedQueries(all_three=all_three).eval()
    result = lower_model(module, MEMORY)

    assert (len(result.blobs), result.outside) == (1, {})
    check_against_eager(result, module, MEMORY)


class Lookalike(nn.Module):
    """Views that resemble those of the module but mean something else."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(x)
        if self.kind == "other parts":
            return y.view(2, 5, WIDTH, 3).permute(2, 0, 1, 3).contiguous()[0]
        if self.kind == "other order":
            return y.view(2, 5, 3, WIDTH).unsqueeze(0).permute(3, 2, 1, 0, 4).squeeze(-2).contiguous()[1]
        if self.kind == "last part":
            return y.view(2, 5, 3, WIDTH).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()[-1]
        if self.kind == "heads of length":
            return y.view(2, 60, 6).transpose(0, 1).contiguous().view(12, 5, 2, 6)
        return y.view(2, 5 * 12, 6).transpose(0, 1).contiguous().view(5, 12, 2, 6)


@pytest.mark.parametrize("kind", ["other parts", "other order", "last part", "heads of length", "heads"])
def test_views_that_resemble_its_own_keep_their_meaning(kind):
    module = Lookalike(kind)
    result = lower_model(module, X)

    check_against_eager(result, module, X)
