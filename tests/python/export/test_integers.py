"""No network computes on shortened or rounded integers: every layer of every integer operator is looked at."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from export_helpers import One, check_against_eager, lower_model

from models.corner_cases import CORNERS
from torch_tensorrt_executorch_runtime.export import _interpreter, save

# A question that float32 answers as well, and arithmetic that PyTorch does in float32 too.
MAY_BE_FLOAT = ("any", "isinf", "lt", "ge", "mul", "_to_copy")


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


@pytest.mark.parametrize("name", ["int64_operators", "int32_operators", "int64_gathered"])
def test_integers_stay_exact_in_one_engine(name, converted):
    corner = CORNERS[name]
    module = corner.make()

    result = lower_model(module, *corner.inputs)

    assert len(result.blobs) == 1
    assert result.outside == {}
    check_against_eager(result, module, *corner.inputs)
    names = {torch.int64: "INT64", torch.int32: "INT32", torch.bool: "BOOL", torch.float32: "FLOAT"}
    for node, value, types in converted:
        if node.op != "call_function" or not isinstance(node.meta["val"], torch.Tensor):
            continue
        assert value.dtype.name == names[node.meta["val"].dtype], node.format_node()
        operator = getattr(node.target, "_opname", "")
        if not node.meta["val"].is_floating_point() and operator not in MAY_BE_FLOAT:
            assert "FLOAT" not in types, node.format_node()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_small_powers_become_products(dtype, converted):
    module = One(lambda x: (x**2, x.square(), x**3, x**4, x**1))
    x = torch.tensor([3, -(2**20), 2**30 + 1]).to(dtype)

    result = lower_model(module, x)

    assert result.outside == {}
    assert {getattr(node.target, "_opname", "") for node, *_ in converted} & {"pow", "square"} == set()
    check_against_eager(result, module, x)


@pytest.mark.parametrize(
    "function",
    [lambda x: x**5, lambda x: torch.pow(x, x), lambda x: torch.pow(2, x)],
    ids=["fifth", "tensor", "of_two"],
)
def test_other_powers_of_integers_stay_outside(function):
    x = torch.tensor([1, 2, 3])

    result = lower_model(One(lambda x: function(x) + 1), x)

    assert "aten.pow" in " ".join(result.outside)


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


@pytest.mark.parametrize("excluded", [(), ("aten.add",)])
def test_a_number_beside_integers_needs_no_options(excluded, tmp_path):
    module = One(lambda x: ((x + 5).float().sin(), 7 - x))

    report = save(
        module,
        tmp_path / "model.pte",
        arg_inputs=(torch.tensor([1, 2, 3]),),
        backend_config=ExecutorchBackendConfig(),
        torch_executed_ops=excluded,
    )

    assert [entry.op for entry in report.outside] == ["aten.add.Tensor"] * len(excluded)
