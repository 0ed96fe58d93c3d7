"""A file that carries its kernels loads faster on a machine that never saw it, and computes the same."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import models

from .results import Recorder

pytestmark = pytest.mark.gpu


def first_load(model: Path, inputs: tuple[Tensor, ...], warm_up: Path) -> tuple[dict[str, Any], list[Tensor]]:
    """Load and run a program in a fresh process with an empty cache folder."""
    folder = model.with_suffix("")
    (folder / "cache").mkdir(parents=True)
    given = io.BytesIO()
    torch.save(list(inputs), given)
    outputs = folder / "outputs.pt"
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("first_load.py"), warm_up, model, outputs],
        env=os.environ | {"TENSORRT_EXECUTORCH_CACHE": str(folder / "cache")},
        input=given.getvalue(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout), torch.load(outputs, weights_only=True)


def test_the_first_load_compiles_nothing(tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_tensorrt_executorch_runtime.export import save
    from torch_tensorrt_executorch_runtime.inspect import inspect_program

    monkeypatch.setenv("TENSORRT_EXECUTORCH_CACHE", "off")  # what this process compiles must not help the others
    method = models.CASES["encoder"].methods(torch.float16)["forward"]
    plain, embedded, warm_up = tmp_path / "plain.pte", tmp_path / "embedded.pte", tmp_path / "warm_up.pte"
    save(method.export(), plain)
    save(method.export(), embedded, embed_runtime_cache=True)
    save(nn.ReLU().eval(), warm_up, arg_inputs=(torch.zeros(4),))
    (engine,) = inspect_program(embedded).methods[0].engines
    assert [(kernels.gpu, kernels.whole) for kernels in engine.kernels] == [(torch.cuda.get_device_name(0), True)]

    cold, expected = first_load(plain, method.inputs, warm_up)
    warm, actual = first_load(embedded, method.inputs, warm_up)

    recorder.note(
        "embedded_kernels",
        cold_over_embedded=cold["seconds"] / warm["seconds"],
        cold_seconds=cold["seconds"],
        embedded_seconds=warm["seconds"],
        kernels_bytes=engine.kernels[0].size_bytes,
        bitwise_equal=all(map(torch.equal, actual, expected)),
    )
    assert warm["seconds"] < cold["seconds"]
    assert (cold["kept"], warm["kept"]) == (1, 0), "what is compiled is kept in the cache folder"
    for got, want in zip(actual, expected, strict=True):
        assert models.relative_error(got, want) <= models.TOLERANCE[torch.float16]


def test_another_machines_kernels_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_tensorrt_executorch_runtime.export import save

    from .programs import load

    monkeypatch.setenv("TENSORRT_EXECUTORCH_CACHE", str(tmp_path / "cache"))
    x = torch.rand(8, 16)
    model, path = nn.Sequential(nn.Linear(16, 4), nn.Softmax(-1)).eval(), tmp_path / "model.pte"
    save(model, path, arg_inputs=(x,), embed_runtime_cache=True)
    data = path.read_bytes()
    gpu = torch.cuda.get_device_name(0).encode()
    key_of_another = b"/" + b"X" * len(gpu)
    assert data.count(b"/" + gpu) == 1
    path.write_bytes(data.replace(b"/" + gpu, key_of_another))

    (actual,) = load(path).execute([x])

    with torch.no_grad():
        torch.testing.assert_close(actual, model(x), rtol=1e-2, atol=1e-3)
