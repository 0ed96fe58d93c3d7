"""Tensors that cross a cut keep type, rank and value, and sizes that depend on values stay outside of the engines."""

from __future__ import annotations

import pytest
from export_helpers import check_against_eager, check_bindings, lower_model

from models.split_programs import SPLITS
from torch_tensorrt_executorch_runtime.export import save


@pytest.mark.parametrize("name", SPLITS)
def test_every_call_gives_what_eager_gives(name):
    split = SPLITS[name]

    result = lower_model(split.make(), *split.inputs, **split.options)

    assert len(result.blobs) == split.engines
    assert sorted(result.outside) == sorted(split.outside)
    check_bindings(result)
    for inputs in split.calls:
        check_against_eager(result, split.make(), *inputs)


@pytest.mark.parametrize("name", SPLITS)
def test_becomes_a_file(name, tmp_path):
    split = SPLITS[name]

    report = save(split.make(), tmp_path / "model.pte", arg_inputs=split.inputs, **split.options)

    assert len(report.engines) == split.engines
    assert report.warnings == (), "ExecuTorch lacks a kernel"
