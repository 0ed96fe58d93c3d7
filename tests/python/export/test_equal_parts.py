"""Equal parts of a program are built once and lie in the file once."""

from __future__ import annotations

import copy

import pytest
import torch
from compiled_models import compile_module
from export_helpers import One, read_pte
from torch import nn

from torch_tensorrt_executorch_runtime.export import _engine_builder, save

X = torch.rand(2, 3)


@pytest.fixture
def builds(monkeypatch):
    """One entry for each engine that is built."""
    done = []
    build = _engine_builder.build_engine

    def counting(*arguments):
        done.append(arguments)
        return build(*arguments)

    monkeypatch.setattr(_engine_builder, "build_engine", counting)
    return done


def segments_of(path) -> dict[str, int]:
    """The number of the segment in which each method's only engine lies."""
    return {method.name: method.delegates[0].segment for method in read_pte(path).methods}


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 64), nn.GELU(), nn.Linear(64, 4)).eval()


def exported(module: nn.Module, x: torch.Tensor = X, **options) -> torch.export.ExportedProgram:
    return torch.export.export(module, (x,), **options)


def test_two_methods_with_one_model_share_a_build_and_a_segment(builds, tmp_path):
    module = model()
    report = save({"a": exported(module), "b": exported(module)}, tmp_path / "two.pte")
    save({"a": exported(module)}, tmp_path / "one.pte")

    assert len(builds) == 2, "one for each file"
    segments = segments_of(tmp_path / "two.pte")
    assert segments["a"] == segments["b"] is not None
    assert len({engine.sha256 for engine in report.engines}) == 1
    engine = report.engines[0].size_bytes
    assert (tmp_path / "two.pte").stat().st_size < (tmp_path / "one.pte").stat().st_size + engine // 2


def test_copies_of_the_weights_are_recognised(builds, tmp_path):
    module = model()
    save({"a": exported(module), "b": exported(copy.deepcopy(module))}, tmp_path / "two.pte")

    assert len(builds) == 1
    assert len(set(segments_of(tmp_path / "two.pte").values())) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda module: model(),
        lambda module: nn.Sequential(module[0], nn.GELU(approximate="tanh"), module[2]),
        lambda module: nn.Sequential(module[0], nn.SiLU(), module[2]),
    ],
    ids=["weights", "argument", "operator"],
)
def test_other_models_are_built_themselves(builds, tmp_path, other):
    module = model()
    save({"a": exported(module), "b": exported(other(module).eval())}, tmp_path / "two.pte")

    assert len(builds) == 2
    assert len(set(segments_of(tmp_path / "two.pte").values())) == 2


class Plus(nn.Module):
    """Adds a constant."""

    def __init__(self, constant: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("constant", constant)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + self.constant


@pytest.mark.parametrize(
    ("first", "second", "engines"),
    [
        (torch.tensor(0.0), torch.tensor(-0.0), 2),
        (torch.full((3,), torch.nan), torch.full((3,), torch.nan), 1),
        (torch.zeros(0, 2, 3), torch.zeros(0, 2, 3), 1),
        (torch.zeros(3), torch.zeros(1, 3), 2),
        (torch.arange(3), torch.arange(3, dtype=torch.int32), 2),
    ],
    ids=["sign of zero", "nan", "empty", "shape", "type"],
)
def test_constants_are_compared_bit_by_bit(builds, tmp_path, first, second, engines):
    programs = {"a": exported(Plus(first)), "b": exported(Plus(second))}
    save(programs, tmp_path / "two.pte", require_engine=False)

    assert len(builds) == engines


def test_the_ranges_and_the_examples_of_sizes_count(builds, tmp_path):
    module = model()

    def program(rows: int, largest: int) -> torch.export.ExportedProgram:
        sizes = {0: torch.export.Dim("rows", min=1, max=largest)}
        return exported(module, torch.rand(rows, 3), dynamic_shapes=(sizes,))

    programs = {"a": program(4, 8), "same": program(4, 8), "range": program(4, 16), "example": program(5, 8)}
    save(programs, tmp_path / "four.pte")

    segments = segments_of(tmp_path / "four.pte")
    assert len(builds) == 3
    assert segments["a"] == segments["same"]
    assert len(set(segments.values())) == 3


def test_compiled_engines_are_stored_once_too(tmp_path):
    compiled = compile_module(model(), (X,))
    program = torch.export.export(One(lambda x: x.sin()), (X,))
    exporter = pytest.importorskip("torch_tensorrt.dynamo._exporter")
    twice = {name: exporter.export(compiled, arg_inputs=(X,), use_legacy_exporter=True) for name in ("a", "b")}
    save({**twice, "c": program}, tmp_path / "three.pte")

    segments = segments_of(tmp_path / "three.pte")
    assert segments["a"] == segments["b"] != segments["c"]
