"""Values in containers that ExecuTorch has no name for come out in their order; the caller's program stays as it is."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import pytest
import torch
from export_helpers import One, Two, check_against_eager, lower_model, read_pte
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from torch_tensorrt_executorch_runtime.export import save

X = torch.tensor([[3.0, 1.0, 2.0, 5.0], [0.0, 9.0, 4.0, 8.0]])


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


@dataclasses.dataclass
class Result:
    scores: Tensor
    pair: Pair


class Bag:
    """A class of the user's, registered without a name."""

    def __init__(self, *values: Tensor) -> None:
        self.values = values


torch.export.register_dataclass(Result)
pytree.register_pytree_node(Bag, lambda bag: (list(bag.values), object()), lambda values, _: Bag(*values))

FUNCTIONS = {
    "sort": lambda x: torch.sort(x, 1),
    "topk": lambda x: torch.topk(x, 2),
    "max": lambda x: torch.max(x, 1),
    "min": lambda x: torch.min(x, 1),
    "kthvalue": lambda x: torch.kthvalue(x, 2),
    "svd": torch.linalg.svd,
    "var_mean_and_topk": lambda x: (torch.var_mean(x, 1), [torch.topk(x, 1)]),
    "dict_of_sorts": lambda x: {"up": torch.sort(x), "down": torch.sort(x, descending=True)},
    "named_tuple": lambda x: Pair(x + 1, x * 2),
    "named_tuples_inside": lambda x: [Pair(x + 1, x * 2), {"third": Pair(x - 1, x * 4)}],
    "dataclass": lambda x: Result(x * 3, Pair(x + 1, x * 2)),
    "class_without_a_name": lambda x: Bag(x + 1, x * 2, x - 1),
    "keys_that_json_lacks": lambda x: {(1, 2): x + 1, torch.float32: x * 2},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_value_comes_out_in_its_order(name):
    module = One(FUNCTIONS[name])

    check_against_eager(lower_model(module, X), module, X)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_written_with_as_many_outputs(name, tmp_path):
    save(One(FUNCTIONS[name]), tmp_path / "model.pte", arg_inputs=(X,), require_engine=False)

    (method,) = read_pte(tmp_path / "model.pte").methods
    expected = pytree.tree_leaves(FUNCTIONS[name](X))
    assert [value.shape for value in method.outputs] == [tuple(value.shape) for value in expected]


def test_operators_outside_of_the_engines_may_return_them_too(tmp_path):
    report = save(
        One(lambda x: (x * 2, torch.sort(x, 1))),
        tmp_path / "model.pte",
        arg_inputs=(X,),
        torch_executed_ops=["aten.sort"],
    )

    assert {entry.op for entry in report.outside} == {"aten.sort.default"}
    assert len(read_pte(tmp_path / "model.pte").methods[0].outputs) == 3


def test_inputs_may_be_in_them(tmp_path):
    class Nested(nn.Module):
        def forward(self, pair, *, result):
            return pair.first - pair.second + result.scores * result.pair.second

    inputs = Pair(X, X + 1)
    save(
        Nested(),
        tmp_path / "model.pte",
        arg_inputs=(inputs,),
        kwarg_inputs={"result": Result(X[:, :1], Pair(X[:1], X))},
    )

    (method,) = read_pte(tmp_path / "model.pte").methods
    # `result.pair.first` is not used, but stays an input.
    assert [value.shape for value in method.inputs] == [(2, 4), (2, 4), (2, 1), (1, 4), (2, 4)]


def test_several_methods_and_a_record_for_the_inspector(tmp_path):
    programs = {
        "sort": torch.export.export(One(FUNCTIONS["sort"]), (X,)),
        "pair": torch.export.export(Two(lambda x, y: Pair(x + y, x - y)), (X, X)),
    }
    save(programs, tmp_path / "model.pte", generate_etrecord=True)

    assert {method.name: len(method.outputs) for method in read_pte(tmp_path / "model.pte").methods} == {
        "sort": 2,
        "pair": 2,
    }


def test_neither_the_program_nor_the_registry_is_changed(tmp_path):
    program = torch.export.export(One(FUNCTIONS["dataclass"]), (X,))
    specification = program.call_spec.out_spec
    registered = dict(pytree.SUPPORTED_SERIALIZED_TYPES)

    save(program, tmp_path / "model.pte")

    assert program.call_spec.out_spec is specification
    assert isinstance(program.module()(X), Result)
    assert dict(pytree.SUPPORTED_SERIALIZED_TYPES) == registered


def test_a_program_of_plain_containers_is_not_copied():
    program = torch.export.export(One(lambda x: {"a": (x + 1, [x * 2])}), (X,))

    assert lower_model(program).lowered.methods["forward"].program is program
