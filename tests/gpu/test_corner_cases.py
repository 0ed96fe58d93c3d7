"""The models of `models.corner_cases` on the GPU: call after call what eager PyTorch gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

from models.corner_cases import CORNERS

pytestmark = pytest.mark.gpu

# Engines may round products to TF32, here in sums of up to 27, and half precision once more than eager does.
TOLERANCE = {torch.float32: 1e-2, torch.float16: 5e-3}


@pytest.mark.parametrize("name", CORNERS)
def test_every_call_gives_what_eager_gives(name: str, tmp_path: Path) -> None:
    from torch_tensorrt_executorch_runtime.export import save

    from .programs import load

    corner = CORNERS[name]
    path = tmp_path / f"{name}.pte"
    report = save(corner.make(), path, arg_inputs=corner.inputs, dynamic_shapes=corner.dynamic_shapes)
    assert len(report.engines) == 1
    loaded, eager = load(path), corner.make()

    for inputs in corner.calls:
        with torch.no_grad():
            expected = pytree.tree_leaves(eager(*(x.clone() for x in inputs)))
        actual = loaded.execute(list(inputs))
        assert len(actual) == len(expected)
        # All of them, so that one run tells every operator that is wrong.
        wrong = [
            f"output {index}: {difference}"
            for index, pair in enumerate(zip(actual, expected, strict=True))
            if (difference := _difference(*pair))
        ]
        assert not wrong, "\n".join(wrong)


def _difference(got: torch.Tensor, want: torch.Tensor) -> str:
    """Say how two results differ; nothing when they do not."""
    tolerance = TOLERANCE.get(want.dtype, 0)
    try:
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    except AssertionError as error:
        return f"{error}\n{got.flatten()[:9]} is not {want.flatten()[:9]}"
    return ""


def test_a_module_on_the_gpu_is_exported_like_one_on_the_cpu(tmp_path: Path) -> None:
    from torch_tensorrt_executorch_runtime.export import save

    from .programs import load

    corner = CORNERS["pool_without_indices"]
    module = corner.make().cuda()
    before = {name: value.clone() for name, value in module.state_dict().items()}

    save(module, tmp_path / "model.pte", arg_inputs=tuple(x.cuda() for x in corner.inputs))

    assert all(value.is_cuda and torch.equal(value, before[name]) for name, value in module.state_dict().items())
    (actual,) = load(tmp_path / "model.pte").execute(list(corner.inputs))
    with torch.no_grad():
        expected = module.cpu()(*corner.inputs)
    torch.testing.assert_close(actual, expected, rtol=1e-2, atol=1e-2)
