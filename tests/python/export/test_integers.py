"""No network computes on shortened or rounded integers: every layer of every integer operator is looked at."""

from __future__ import annotations

import pytest
import torch
from export_helpers import One, check_against_eager, lower_model
from torch import nn
from torch.nn import functional

from torch_tensorrt_executorch_runtime.export import _interpreter

OPERATORS = {
    **{
        name: getattr(torch, name)
        for name in ["abs", "sign", "square", "relu", "floor", "ceil", "round", "trunc", "sum"]
    },
    **{name: getattr(torch, name) for name in ["isnan", "isinf", "logical_not", "tril"]},
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
# A question that float32 answers as well, and arithmetic that PyTorch does in float32 too.
MAY_BE_FLOAT = ("any", "isinf", "lt", "ge", "mul", "_to_copy")
VALUES = {
    torch.int64: [[0, 2**40 + 1, -3], [4, -(2**33), 2**53 + 1]],
    torch.int32: [[0, 2**24 + 1, -3], [2**31 - 1, 2**31 - 9, -(2**28) - 1]],
}


class Each(nn.Module):
    def forward(self, x, bias):
        return bias + 1, [function(x) for function in OPERATORS.values()]


@pytest.fixture
def converted(monkeypatch):
    """Record each converted node with its result and its layers' output types."""
    found = []
    run_node = _interpreter._Interpreter.run_node

    def recording(self, node):
        before = self.ctx.net.num_layers
        result = run_node(self, node)
        layers = [self.ctx.net.get_layer(index) for index in range(before, self.ctx.net.num_layers)]
        types = {layer.get_output(index).dtype.name for layer in layers for index in range(layer.num_outputs)}
        found.append((node, result, types))
        return result

    monkeypatch.setattr(_interpreter._Interpreter, "run_node", recording)
    return found


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_integers_stay_exact_in_one_engine(dtype, converted):
    x, module = torch.tensor(VALUES[dtype], dtype=dtype), Each()

    result = lower_model(module, x, torch.rand(3))

    assert len(result.blobs) == 1
    assert result.outside == {}
    check_against_eager(result, module, x, torch.rand(3))
    names = {torch.int64: "INT64", torch.int32: "INT32", torch.bool: "BOOL", torch.float32: "FLOAT"}
    for node, value, types in converted:
        if node.op != "call_function" or not isinstance(node.meta["val"], torch.Tensor):
            continue
        assert value.dtype.name == names[node.meta["val"].dtype], node.format_node()
        operator = getattr(node.target, "_opname", "")
        if not node.meta["val"].is_floating_point() and operator not in MAY_BE_FLOAT:
            assert "FLOAT" not in types, node.format_node()


def test_a_range_beyond_32_bits_stays_outside():
    module = One(lambda x: torch.arange(2**35, 2**35 + 3) + x)
    x = torch.tensor([1, 2, 3])

    result = lower_model(module, x)

    assert result.outside == {"aten.arange.start_step": "TensorRT would round or shorten these integers"}
    check_against_eager(result, module, x)


def test_bools_are_chosen_as_bools(converted):
    module = One(lambda x: torch.where(x > 1, x > 2, x < 0) ^ (x > 5))
    x = torch.tensor([-1.0, 1.5, 3, 6])

    result = lower_model(module, x)

    check_against_eager(result, module, x)
    assert all(
        value.dtype.name == "BOOL"
        for node, value, _ in converted
        if node.op == "call_function" and node.meta["val"].dtype == torch.bool
    )
