"""Programs through `executorch.runtime` on the GPU against eager PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import models

from .blobs import delegate_ids, find_blobs
from .results import Recorder

pytestmark = pytest.mark.gpu

CASES = [
    pytest.param(case, dtype, id=f"{case.name}-{str(dtype).removeprefix('torch.')}")
    for case in models.CASES.values()
    for dtype in case.dtypes
]
TIMED = ("resnet18", "encoder")
# The list of checks calls equal what is the same within the tolerance, for the program with two methods.
CHECK_NAMES = {"two_methods": "two_methods.equal"}


def export(case: models.Case, dtype: torch.dtype, path: Path) -> dict[str, models.Method]:
    from torch_tensorrt_executorch_runtime.export import save

    methods = case.methods(dtype)
    programs = {name: method.export() for name, method in methods.items()}
    save(programs if list(programs) != ["forward"] else programs["forward"], path)
    return methods


def compare(loaded: Any, method: models.Method, *, exact: bool) -> float:
    """Run every call of a method; return the number of wrong elements or the largest relative error."""
    from .programs import wrong_elements

    worst = 0.0
    for inputs in method.calls:
        untouched = [x.clone() for x in inputs]
        actual = loaded.execute(list(inputs))
        assert all(torch.equal(x, y) for x, y in zip(inputs, untouched, strict=True)), "an input was written to"
        if exact:
            worst += wrong_elements(actual, method.expected_exactly(inputs))
        else:
            pairs = zip(actual, method.expected(inputs), strict=True)
            worst = max(worst, *(models.relative_error(a, b) for a, b in pairs))
    return worst


@pytest.mark.parametrize(("case", "dtype"), CASES)
def test_a_program_gives_what_eager_gives(
    case: models.Case, dtype: torch.dtype, tmp_path: Path, recorder: Recorder
) -> None:
    from .programs import load, load_with_test_kernels, microseconds, short_name

    path = tmp_path / f"{case.name}.pte"
    methods = export(case, dtype, path)
    delegates = {name: delegate_ids(path, name) for name in methods}
    assert len(find_blobs(path)) == case.engines, delegates
    worst = 0.0
    for name, method in methods.items():
        loaded = load_with_test_kernels(path, name) if case.outside else load(path, name)
        worst = max(worst, compare(loaded, method, exact=case.exact))
        if case.name in TIMED:
            recorder.note(case.name, **{f"{short_name(dtype)}_us": microseconds(loaded, method.inputs)})
    recorder.note(case.name, delegates=delegates, **{short_name(dtype): worst})
    if case.exact:
        assert recorder.check(f"{case.name}.equal", worst, limit=0, unit="elements that differ")
    else:
        name = CHECK_NAMES.get(case.name, f"{case.name}.relerr")
        assert recorder.check(name, worst, limit=case.tolerance(dtype), unit="relative error")


def test_methods_of_one_program_take_turns(tmp_path: Path) -> None:
    from executorch.runtime import Runtime

    from .programs import wrong_elements

    methods = export(models.CASES["two_methods"], torch.float32, tmp_path / "model.pte")
    program = Runtime.get().load_program(tmp_path / "model.pte")
    loaded = {name: program.load_method(name) for name in methods}
    first = {name: loaded[name].execute(list(method.inputs)) for name, method in methods.items()}
    for _ in range(3):
        for name, method in methods.items():
            assert wrong_elements(loaded[name].execute(list(method.inputs)), first[name]) == 0
