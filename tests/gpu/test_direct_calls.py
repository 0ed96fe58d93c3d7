"""Calls that go from Python to the engine directly, on every stream that a caller can choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from .every_tensor.programs import ON_DEVICE

pytestmark = pytest.mark.gpu

CALLS = 20
BUSY_CYCLES = 2_000_000


class Scale(torch.nn.Module):
    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return x * scale + 1


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of one engine with a dynamic batch, whose tensors are on the GPU."""
    from torch_tensorrt_executorch_runtime.export import save

    file = tmp_path_factory.mktemp("direct") / "model.pte"
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(
        Scale().eval(), (torch.ones(3, 4096), torch.ones(4096)), dynamic_shapes=({0: batch}, None)
    )
    save(program, file, backend_config=ON_DEVICE())
    return file


@pytest.fixture
def method(path: Path) -> Any:
    """The method, called so often that calls with a batch of 3 go directly."""
    from .programs import load

    method = load(path)
    for _ in range(2):
        method.execute([torch.ones(3, 4096, device="cuda"), torch.ones(4096, device="cuda")])
    torch.cuda.synchronize()
    return method


@contextmanager
def usual_calls() -> Iterator[list[None]]:
    """Collect the calls that go through ExecuTorch's binding."""
    from executorch.runtime import ExecuTorchMethod

    seen: list[None] = []
    call = ExecuTorchMethod.__call__
    ExecuTorchMethod.__call__ = lambda *args: seen.append(None) or call(*args)
    try:
        yield seen
    finally:
        ExecuTorchMethod.__call__ = call


def choices() -> dict[str, tuple[Any, Any, bool]]:
    """Return PyTorch's stream, the delegate's, and whether such calls go directly, by name."""
    from torch_tensorrt_executorch_runtime import caller_stream

    default, side, other = torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()
    return {
        "nothing chosen": (default, None, True),
        "torch's side stream": (side, None, True),
        "both": (side, caller_stream(side), True),
        "both, the default one": (default, caller_stream(default), True),
        "by number": (side, caller_stream(side.cuda_stream), True),
        "the delegate's alone": (default, caller_stream(side), False),
        "two streams": (side, caller_stream(other), False),
    }


@pytest.mark.parametrize("clone_outputs", [True, False])
def test_every_choice_of_streams_gives_the_right_results(method: Any, clone_outputs: bool) -> None:
    x, scale = torch.zeros(3, 4096, device="cuda"), torch.arange(4096.0, device="cuda")
    for name, (stream, chosen, directly) in choices().items():
        torch.cuda.synchronize()
        with usual_calls() as usual, torch.cuda.stream(stream), chosen or nullcontext():
            for i in range(CALLS):
                if directly:  # where the engine runs on PyTorch's stream, it runs behind what fills the input
                    torch.cuda._sleep(BUSY_CYCLES)
                x.fill_(i)
                if not directly:
                    stream.synchronize()
                (y,) = method.execute([x, scale], clone_outputs=clone_outputs)
                if not directly:
                    torch.cuda.synchronize()
                result = y.clone()
                stream.synchronize()
                assert torch.equal(result, (i * scale + 1).expand(3, -1)), f"{name}: call {i}"
        assert len(usual) == (0 if directly else CALLS), name


def test_results_are_the_callers_own(method: Any) -> None:
    x, scale = torch.ones(3, 4096, device="cuda"), torch.ones(4096, device="cuda")
    with usual_calls() as usual:
        results = [method.execute([x * i, scale])[0] for i in range(CALLS)]
    for i, result in enumerate(results):
        assert torch.equal(result, torch.full_like(result, i + 1.0))
    assert not usual


def test_shapes_and_addresses_change(method: Any) -> None:
    scale = torch.arange(4096.0, device="cuda")
    for turn in range(CALLS):
        for batch in (3, 5, 64, 64):
            x = torch.full((batch, 4096), float(turn), device="cuda")
            (y,) = method.execute([x, scale])
            assert torch.equal(y, x * scale + 1), (turn, batch)


def test_an_input_on_the_host_goes_the_usual_way(method: Any) -> None:
    scale = torch.ones(4096)
    with usual_calls() as usual:
        for turn in range(4):
            (y,) = method.execute([torch.full((3, 4096), float(turn), device="cuda"), scale])
            assert torch.equal(y, torch.full_like(y, turn + 1.0))
    assert len(usual) == 2, "two calls are enough to learn inputs of this kind"


def test_replayed_engines_are_called_directly(path: Path) -> None:
    import torch_tensorrt_executorch_runtime as tter

    from .programs import load

    tter.set_option("use_cuda_graphs", True)
    try:
        method = load(path)
    finally:
        tter.set_option("use_cuda_graphs", False)
    x, scale = torch.zeros(3, 4096, device="cuda"), torch.ones(4096, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), tter.caller_stream(stream):
        for turn in range(CALLS):
            x.fill_(turn)
            (y,) = method.execute([x, scale])
            stream.synchronize()
            assert torch.equal(y, torch.full_like(y, turn + 1.0))
    assert tter.stats()[-1].replayed_calls >= CALLS - 2
