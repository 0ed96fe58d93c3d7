"""Wrong files and wrong calls on a real GPU: one sentence in the log, and the process goes on to a good call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from .blobs import digest_of, find_blobs

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with one engine, two inputs of different shapes and a dynamic batch of 2 to 8."""
    from torch_tensorrt_executorch_runtime.export import save

    path = tmp_path_factory.mktemp("good") / "model.pte"
    batch = torch.export.Dim("batch", min=2, max=8)
    save(torch.export.export(Scale().eval(), inputs(), dynamic_shapes=({0: batch}, None)), path)
    return path


class Scale(torch.nn.Module):
    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return x * scale + 1


def inputs(batch: int = 3) -> tuple[Tensor, Tensor]:
    return torch.arange(batch * 4.0).reshape(batch, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])


def assert_still_good(path: Path) -> None:
    """Load and run the good program: what failed before must not have left anything behind."""
    from .programs import load

    x, scale = inputs()
    (y,) = load(path).execute([x, scale])
    assert torch.equal(y, x * scale + 1)


def refused(call: Any, capfd: pytest.CaptureFixture[str]) -> str:
    """Run what must fail and return the log."""
    capfd.readouterr()
    with pytest.raises((RuntimeError, ValueError)):
        call()
    return capfd.readouterr().err


def damage(
    path: Path, target: Path, *, metadata: tuple[bytes, bytes] | None = None, engine: bytes | None = None
) -> Path:
    """Copy a program with other bytes in its blob, of equal length; the digest is made to fit a changed engine."""
    (blob,) = find_blobs(path)
    data = path.read_bytes()
    if metadata is not None:
        old, new = metadata
        assert data.count(old) == 1, f"{old!r} must stand once in the file"
        assert len(old) == len(new), "every offset must stay"
        data = data.replace(old, new)
    if engine is not None:
        assert len(engine) == len(blob.engine)
        data = data.replace(blob.engine, engine)
        data = data.replace(blob.digest.encode(), digest_of(engine).encode())
    target.write_bytes(data)
    return target


# What ExecuTorch itself refuses before the delegate is asked stands in its log; sizes within the memory that it
# planned reach the delegate.
WRONG_CALLS = {
    "too few inputs": (lambda x, s: [x], "Expected 2, but got 1"),
    "too many inputs": (lambda x, s: [x, s, s], "Expected 2, but got 3"),
    "wrong type": (lambda x, s: [x.double(), s], "expected Float but was Double"),
    "wrong rank": (lambda x, s: [x[0], s], "old=2, new=1"),
    "batch far above the range": (lambda x, s: [x.repeat(3, 1), s], "maximum capacity of 32 elements"),
    "batch above the range": (
        lambda x, s: [x.repeat(3, 1)[:, :3].contiguous(), s],
        "[9, 3], but the engine allows [2..8, 4]",
    ),
    "batch below the range": (lambda x, s: [x[:1], s], "has shape [1, 4], but the engine allows [2..8, 4]"),
    "another fixed size": (
        lambda x, s: [x[:, :3].contiguous(), s],
        "has shape [3, 3], but the engine allows [2..8, 4]",
    ),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_is_refused_and_the_next_one_works(
    name: str, good: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from .programs import load

    change, words = WRONG_CALLS[name]
    method = load(good)
    x, scale = inputs()
    log = refused(lambda: method.execute(change(x, scale)), capfd)
    assert words in log, log
    (y,) = method.execute([x, scale])
    assert torch.equal(y, x * scale + 1)


def test_transposed_memory_is_read_right(good: Path) -> None:
    from .programs import load

    x, scale = inputs(4)
    (y,) = load(good).execute([x.t(), scale])
    assert torch.equal(y, x.t() * scale + 1)


def test_a_flipped_byte_in_the_engine_is_found_by_the_digest(
    good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from .programs import load

    (blob,) = find_blobs(good)
    data = bytearray(good.read_bytes())
    data[data.index(blob.engine) + len(blob.engine) // 2] ^= 1
    path = tmp_path / "flipped.pte"
    path.write_bytes(data)
    log = refused(lambda: load(path), capfd)
    assert "SHA-256" in log, log
    assert_still_good(good)


def test_an_engine_of_the_other_tensorrt_says_which_library_it_needs(
    good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from .programs import load

    (blob,) = find_blobs(good)
    unknown_writer = (b'"tensorrt":{', b'"tensorrx":{')  # so that only the engine's first bytes say whose it is
    path = damage(good, tmp_path / "other.pte", metadata=unknown_writer, engine=b"ftrt" + blob.engine[4:])
    log = refused(lambda: load(path), capfd)
    assert "This engine needs TensorRT 11, and no usable library was found" in log, log
    assert "tensorrt_libs/libnvinfer.so.11" in log, log
    assert_still_good(good)


def test_an_engine_that_tensorrt_refuses_names_versions_and_gpus(good: Path, tmp_path: Path) -> None:
    (blob,) = find_blobs(good)
    path = damage(good, tmp_path / "zeros.pte", engine=blob.engine[:64] + bytes(len(blob.engine) - 64))
    log = log_of_a_process(path)  # what TensorRT makes of such bytes must not end this process
    assert "cannot load this engine" in log, log
    assert "TensorRT says" in log, log


def test_an_engine_for_another_gpu_is_refused_or_right(
    good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """TensorRT-RTX 1.6 loads engines for GPUs that this one is not (seen: 12.0 on 9.0); then they must be right."""
    from torch_tensorrt_executorch_runtime.export import save

    from .programs import load

    major, minor = torch.cuda.get_device_capability()
    other = "12.0" if major < 12 else "8.0"
    path = tmp_path / "other_gpu.pte"
    save(Scale().eval(), path, arg_inputs=inputs(), compute_capabilities=[other])
    capfd.readouterr()
    try:
        method = load(path)
    except (RuntimeError, ValueError):
        log = capfd.readouterr().err
        assert f"for compute capability {other}" in log, log
        assert f"{major}.{minor}" in log, log
    else:
        assert torch.equal(method.execute(list(inputs()))[0], Scale()(*inputs()))
    assert_still_good(good)


def test_a_device_that_is_not_there_names_how_many_are(
    good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from .programs import load

    path = damage(good, tmp_path / "device.pte", metadata=(b'"device_id":0', b'"device_id":9'))
    log = refused(lambda: load(path), capfd)
    assert f"exported for GPU 9, but this process sees {torch.cuda.device_count()} GPU(s)" in log, log
    assert_still_good(good)


def test_a_truncated_program_is_refused(good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from .programs import load

    path = tmp_path / "short.pte"
    path.write_bytes(good.read_bytes()[:-1000])
    refused(lambda: load(path), capfd)
    assert_still_good(good)


RUN_ONCE = """
import sys, torch
from executorch.runtime import Runtime
import torch_tensorrt_executorch_runtime

from torch_tensorrt_executorch_runtime._digest import engine_digest
Runtime.get().load_program(sys.argv[1]).load_method("forward")
"""


def log_of_a_process(path: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN_ONCE, path],
        cwd=path.parent,  # not in the repository, whose sources would be imported instead of what is installed
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done
    return done.stderr


def test_a_missing_library_says_where_it_looked(good: Path) -> None:
    log = log_of_a_process(good, TENSORRT_EXECUTORCH_LIBRARY="/nowhere/libtensorrt_rtx.so.1")
    assert "no usable library was found" in log, log
    assert "/nowhere/libtensorrt_rtx.so.1" in log, log


def test_a_file_that_is_no_library_of_tensorrt_is_named(good: Path) -> None:
    log = log_of_a_process(good, TENSORRT_EXECUTORCH_LIBRARY="libm.so.6")
    assert "is no TensorRT library" in log, log


def test_a_process_that_sees_no_gpu_says_so(good: Path) -> None:
    log = log_of_a_process(good, CUDA_VISIBLE_DEVICES="")
    assert "nvidia-smi" in log, log
