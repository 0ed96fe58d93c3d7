from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from support.process import PACKAGE, run_code
from torch_tensorrt_executorch_runtime import BlobError, ProgramError
from torch_tensorrt_executorch_runtime.inspect import OutsideInfo, inspect_program


def test_shows_engines_with_bindings_versions_and_digests(programs: Path) -> None:
    program = inspect_program(programs / "engine.pte")
    (method,) = program.methods
    (engine,) = method.engines
    assert program.size_bytes == (programs / "engine.pte").stat().st_size
    assert engine.flavor == "rtx"
    assert engine.version is not None
    assert engine.version.startswith("1.6.")
    assert engine.compute_capabilities == ()
    assert engine.layers is not None
    assert engine.layers >= 1
    assert [(item.is_input, item.dtype, item.shape) for item in engine.bindings] == [
        (True, "float32", (2, 16)),
        (False, "float32", (2, 8)),
    ]
    assert engine.sha256_recorded
    data = (programs / "engine.pte").read_bytes()
    start = data.index(b"vtrt")
    assert engine.sha256 == hashlib.sha256(data[start : start + engine.size_bytes]).hexdigest()


def test_shows_the_profile_of_a_dynamic_input(programs: Path) -> None:
    (method,) = inspect_program(programs / "dynamic.pte").methods
    binding = method.engines[0].bindings[0]
    assert binding.shape == (-1, 16)
    assert binding.profile is not None
    assert binding.profile["opt"] == (4, 16)
    assert binding.profile["max"] == (8, 16)
    assert method.inputs[0].dynamic
    assert method.inputs[0].shape == (8, 16)


def test_says_what_stayed_outside_and_why(programs: Path) -> None:
    (method,) = inspect_program(programs / "outside.pte").methods
    assert method.outside == (OutsideInfo("aten.erfinv.default", 1, "TensorRT has no converter"),)
    assert inspect_program(programs / "engine.pte").methods[0].outside == ()
    assert inspect_program(programs / "plain.pte").methods[0].outside is None


def test_keeps_the_partition_report_out_of_the_compile_specs(programs: Path) -> None:
    delegate = inspect_program(programs / "outside.pte").methods[0].delegates[0]
    assert "partition_report" not in delegate.compile_specs
    assert delegate.compile_specs["target_device"] == "cuda:0"


def test_names_what_the_segments_hold(programs: Path) -> None:
    holds = [segment.holds for segment in inspect_program(programs / "outside.pte").segments]
    assert "forward: delegate 0 (TensorRTBackend)" in holds
    assert "forward: delegate 1 (TensorRTBackend)" in holds


def test_is_plain_data(programs: Path) -> None:
    document = json.loads(json.dumps(inspect_program(programs / "outside.pte").to_dict()))
    assert document["methods"][0]["delegates"][0]["engine"]["flavor"] == "rtx"


def test_needs_neither_torch_nor_a_registered_delegate(programs: Path) -> None:
    result = run_code(
        f"""
        import sys
        from {PACKAGE}.inspect import inspect_program
        inspect_program({str(programs / "engine.pte")!r})
        assert not {{"torch", "executorch", "numpy"}} & set(sys.modules)
        """,
        env={"TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION": "1"},
    )
    assert result.code == 0, result.err


def changed(programs: Path, tmp_path: Path, old: bytes, new: bytes) -> Path:
    """Copy a program with some bytes replaced by as many others."""
    assert len(old) == len(new)
    data = (programs / "outside.pte").read_bytes()
    assert old in data
    path = tmp_path / "changed.pte"
    path.write_bytes(data.replace(old, new, 1))
    return path


def test_a_changed_engine_is_refused_with_method_and_delegate(programs: Path, tmp_path: Path) -> None:
    data = bytearray((programs / "outside.pte").read_bytes())
    data[-500] ^= 1
    path = tmp_path / "flipped.pte"
    path.write_bytes(data)
    with pytest.raises(BlobError, match="Method 'forward', delegate 1: The engine's SHA-256 is"):
        inspect_program(path)


def test_a_damaged_blob_is_refused(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(BlobError, match="delegate 0: The blob starts with b'XR01'"):
        inspect_program(changed(programs, tmp_path, b"TR01", b"XR01"))


def test_damaged_metadata_is_refused(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(BlobError, match="delegate 0: The metadata is not JSON"):
        inspect_program(changed(programs, tmp_path, b'{"io_bindings":[', b'{"io_bindings":{'))


def test_a_damaged_partition_report_is_refused(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="its report of what stayed outside of the engines is unreadable"):
        inspect_program(changed(programs, tmp_path, b'{"outside":', b'["outside":'))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        inspect_program(tmp_path / "nothing.pte")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.pte"
    path.touch()
    with pytest.raises(ProgramError, match="has 0 bytes"):
        inspect_program(path)
