from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest

from torch_tensorrt_executorch_runtime import ProgramError
from torch_tensorrt_executorch_runtime._boundary import Boundary, read_boundaries
from torch_tensorrt_executorch_runtime._program import map_file, read_program

NAMES = ["outside.pte", "engine.pte", "dynamic.pte", "plain.pte"]


@pytest.mark.parametrize("name", NAMES)
def test_reads_what_executorch_reads(programs: Path, name: str) -> None:
    facts = json.loads((programs / "facts.json").read_text())[name]
    (method,) = read_program(memoryview((programs / name).read_bytes())).methods
    assert method.name == facts["name"]
    assert [list(value.shape) for value in method.inputs] == facts["inputs"]
    assert [list(value.shape) for value in method.outputs] == facts["outputs"]
    assert [operator for operator, _ in method.operators] == facts["operators"]
    assert [[item.backend, [key for key, _ in item.compile_specs]] for item in method.delegates] == facts["delegates"]
    assert [size for _, size in method.memory] == facts["memory"]


def test_counts_calls_and_knows_devices(programs: Path) -> None:
    (method,) = read_program(memoryview((programs / "outside.pte").read_bytes())).methods
    assert dict(method.operators) == {
        "et_copy::_h2d_copy.out": 2,
        "et_copy::_d2h_copy.out": 2,
        "aten::erfinv.out": 1,
    }
    assert [delegate.calls for delegate in method.delegates] == [1, 1]
    assert {device for device, _ in method.memory} == {"cpu", "cuda:0"}


def test_delegate_data_are_views_at_their_place_in_the_file(programs: Path) -> None:
    data = (programs / "outside.pte").read_bytes()
    for delegate in read_program(memoryview(data)).methods[0].delegates:
        assert bytes(delegate.data[:4]) == b"TR01"
        assert data[delegate.offset : delegate.offset + len(delegate.data)] == delegate.data
        assert delegate.offset % 128 == 0


def test_refuses_an_empty_file() -> None:
    with pytest.raises(ProgramError, match="has 0 bytes, too few"):
        read_program(memoryview(b""))


def test_refuses_another_kind_of_file() -> None:
    with pytest.raises(ProgramError, match=r"no ExecuTorch program: bytes 4 to 8 are b'\\x03\\x04\.\.'"):
        read_program(memoryview(b"PK..\x03\x04.." + bytes(100)))


@pytest.mark.parametrize("name", NAMES)
def test_refuses_a_file_cut_off_at_any_length(programs: Path, name: str) -> None:
    data = memoryview((programs / name).read_bytes())
    table_size, segment_base = struct.unpack_from("<QQ", data, 16)
    lengths = [*range(min(table_size, 4000)), *range(segment_base, len(data), 997), len(data) - 1]
    for length in lengths:
        with pytest.raises(ProgramError, match=r"cut off|too few|damaged|no ExecuTorch program"):
            read_program(data[:length])


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_give_a_program_or_a_sentence_and_nothing_else(programs: Path, name: str) -> None:
    original = (programs / name).read_bytes()
    table_size = struct.unpack_from("<Q", original, 16)[0]
    rng = random.Random(0)
    sentences = []
    for _ in range(1500):
        data = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(table_size)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            read_program(memoryview(data))
        except ProgramError as error:
            sentences.append(str(error))
    assert len(sentences) > 50
    assert all(sentence.endswith(".") for sentence in sentences)


def test_reads_the_boundaries_of_methods_with_engines_only(programs: Path) -> None:
    host = Boundary(input_orders=(None,), output_gpu=None, is_one_call=False)
    assert read_boundaries(map_file(programs / "outside.pte"), "TensorRTBackend") == {"forward": host}
    assert read_boundaries(map_file(programs / "plain.pte"), "TensorRTBackend") == {}


def test_reading_the_boundaries_of_changed_bytes_gives_a_sentence_and_nothing_else(programs: Path) -> None:
    original = (programs / "dynamic.pte").read_bytes()
    table_size = struct.unpack_from("<Q", original, 16)[0]
    sentences = []
    for position in range(table_size):
        data = bytearray(original)
        data[position] ^= 0x7F
        try:
            read_boundaries(memoryview(data), "TensorRTBackend")
        except ProgramError as error:
            sentences.append(str(error))
    assert len(sentences) > 20
    assert all(sentence.endswith(".") for sentence in sentences)


def test_a_huge_count_is_refused_before_any_work(programs: Path) -> None:
    data = bytearray((programs / "plain.pte").read_bytes())
    root = struct.unpack_from("<I", data, 0)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    field = root + struct.unpack_from("<H", data, vtable + 4 + 2 * 1)[0]  # Program.execution_plan
    vector = field + struct.unpack_from("<I", data, field)[0]
    struct.pack_into("<I", data, vector, 0xFFFFFFFF)
    with pytest.raises(ProgramError, match="The program is damaged: it points to bytes"):
        read_program(memoryview(data))
