"""The models of `models.split_programs` on the GPU: engines and ExecuTorch's CPU kernels in turns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

from models.split_programs import SPLITS

pytestmark = pytest.mark.gpu

ROUNDS = 50


@pytest.mark.parametrize("name", SPLITS)
def test_every_call_gives_what_eager_gives(name: str, tmp_path: Path) -> None:
    from torch_tensorrt_executorch_runtime.export import save

    from .programs import load

    split = SPLITS[name]
    path = tmp_path / f"{name}.pte"
    save(split.make(), path, arg_inputs=split.inputs, progress=False, **split.options)
    loaded, eager = load(path), split.make()
    with torch.no_grad():
        expected = [pytree.tree_leaves(eager(*inputs)) for inputs in split.calls]

    for turn in range(ROUNDS):
        index = turn % len(split.calls)
        actual = loaded.execute([x.clone() for x in split.calls[index]])
        assert len(actual) == len(expected[index])
        for got, want in zip(actual, expected[index], strict=True):
            tolerance = 1e-5 if want.dtype == torch.float32 else 0
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
