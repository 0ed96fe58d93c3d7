"""The blob writer gives exact bytes, and the reader refuses everything that is not one."""

from __future__ import annotations

import json
import struct

import pytest

from torch_tensorrt_executorch_runtime._blob import (
    Alias,
    Binding,
    BlobMetadata,
    Profile,
    TensorRTVersion,
    pack_blob,
    unpack_blob,
)
from torch_tensorrt_executorch_runtime._errors import BlobError

PLAIN = BlobMetadata(bindings=(Binding("x.0", True), Binding("y.0", False)))
FULL = BlobMetadata(
    bindings=(
        Binding("x", True, "float32", (-1, 4), Profile((1, 4), (2, 4), (8, 4))),
        Binding("y", False, "bfloat16", (-1, 4)),
    ),
    device_id=3,
    hardware_compatible=True,
    serialized_metadata="abc",
    target_platform="linux_x86_64",
    tensorrt=TensorRTVersion("rtx", "1.6.1.120"),
    compute_capabilities=("8.0", "8.9"),
    layers=62,
    build_seconds=0.13,
)


def rebuilt(blob: bytes, *, text: bytes | None = None, **header: int) -> bytes:
    """Return the blob with some header fields or its JSON replaced."""
    names = ("magic", "offset", "size", "engine_offset", "engine_size", "rest")
    fields = dict(zip(names, struct.unpack("<4sIIIQ8s", blob[:32]), strict=True))
    old = blob[32 : 32 + fields["size"]]
    engine = blob[fields["engine_offset"] :]
    text = old if text is None else text
    fields["size"] = len(text)
    fields["engine_offset"] = -(-(32 + len(text)) // 16) * 16
    fields.update(header)
    body = text.ljust(-(-(32 + len(text)) // 16) * 16 - 32, b"\0") + engine
    return struct.pack("<4sIIIQ8s", *fields.values()) + body


def with_json(**changes: object) -> bytes:
    blob = pack_blob(PLAIN, b"ENGINE")
    document = json.loads(blob[32 : 32 + struct.unpack("<I", blob[8:12])[0]])
    document.update(changes)
    return rebuilt(blob, text=json.dumps(document, separators=(",", ":")).encode())


def test_writes_the_layout_that_readers_know():
    blob = pack_blob(PLAIN, b"ENGINE")

    magic, offset, size, engine_offset, engine_size, reserved = struct.unpack("<4sIIIQ8s", blob[:32])
    assert (magic, offset, engine_size, reserved) == (b"TR01", 32, 6, b"\x01" + bytes(7))
    assert engine_offset == -(-(32 + size) // 16) * 16
    assert set(blob[32 + size : engine_offset]) <= {0}
    assert blob[engine_offset:] == b"ENGINE"
    assert blob[32 : 32 + size].startswith(
        b'{"io_bindings":[{"name":"x.0","dtype":"","shape":[],"is_input":true},'
        b'{"name":"y.0","dtype":"","shape":[],"is_input":false}],'
        b'"aliased_io":[],"hardware_compatible":false,"device_id":0,"serialized_metadata":"","target_platform":"",'
        b'"engine_sha256":"'
    )


def test_an_alias_changes_the_magic():
    metadata = BlobMetadata(bindings=PLAIN.bindings, aliases=(Alias("y.0", "x.0", "user"),))

    blob = pack_blob(metadata, b"ENGINE")

    assert blob[:4] == b"TR02"
    assert unpack_blob(blob).metadata.aliases == metadata.aliases


def test_reads_back_what_it_wrote():
    blob = unpack_blob(pack_blob(FULL, b"ENGINE"))

    assert bytes(blob.engine) == b"ENGINE"
    assert blob.metadata.engine_sha256 is not None
    assert blob.metadata == BlobMetadata(**{**vars(FULL), "engine_sha256": blob.metadata.engine_sha256})


def test_equal_arguments_give_equal_bytes():
    assert pack_blob(FULL, b"ENGINE") == pack_blob(FULL, b"ENGINE")


def test_the_stock_reader_takes_our_blobs():
    from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt

    load_torch_tensorrt()
    from torch_tensorrt.executorch.serialization import deserialize_engine

    engine, metadata = deserialize_engine(pack_blob(FULL, b"ENGINE"))

    assert engine == b"ENGINE"
    assert [(binding.name, binding.is_input) for binding in metadata.io_bindings] == [("x", True), ("y", False)]
    assert metadata.device_id == 3


def test_we_take_blobs_of_the_stock_writer():
    from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt

    load_torch_tensorrt()
    from torch_tensorrt.executorch.serialization import TensorRTBlobMetadata, TensorRTIOBinding, serialize_engine

    stock = TensorRTBlobMetadata(
        io_bindings=[TensorRTIOBinding("a"), TensorRTIOBinding("b", is_input=False)],
        aliased_io={"b": ("a", "user")},
        device_id=1,
    )

    blob = unpack_blob(serialize_engine(b"ENGINE", stock))

    assert bytes(blob.engine) == b"ENGINE"
    assert [binding.name for binding in blob.metadata.bindings] == ["a", "b"]
    assert blob.metadata.aliases == (Alias("b", "a", "user"),)
    assert blob.metadata.engine_sha256 is None


def test_ignores_unknown_keys_and_trailing_bytes():
    assert unpack_blob(with_json(later={"a": [1]}) + b"tail").metadata.bindings == PLAIN.bindings


def test_refuses_every_truncation():
    blob = pack_blob(FULL, b"ENGINE")
    for length in range(len(blob)):
        with pytest.raises(BlobError):
            unpack_blob(blob[:length])


def test_refuses_a_changed_engine():
    blob = bytearray(pack_blob(FULL, b"ENGINE"))
    blob[-1] ^= 1
    with pytest.raises(BlobError, match=r"SHA-256 is .* but the blob states .*: the file is damaged"):
        unpack_blob(blob)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"magic": b"TR03"}, "starts with b'TR03', but TR01 or TR02"),
        ({"offset": 31}, "metadata_offset is 31, inside the header"),
        ({"size": 2**32 - 1}, "metadata_size is 4294967295"),
        ({"size": 10_000}, "the file is cut off"),
        ({"engine_offset": 1025}, "not a multiple of 16"),
        ({"engine_offset": 32}, "but the metadata ends at"),
        ({"engine_size": 2**64 - 16}, "the file is cut off"),
    ],
)
def test_refuses_bad_headers(header, text):
    with pytest.raises(BlobError, match=text):
        unpack_blob(rebuilt(pack_blob(PLAIN, b"ENGINE"), **header))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"io_bindings": None}, "'io_bindings' is None, but a list is expected"),
        ({"io_bindings": [3]}, "an entry of 'io_bindings' is 3"),
        ({"io_bindings": [{"is_input": True}]}, "lacks the key 'name'"),
        ({"io_bindings": [{"name": "x", "shape": [-2]}]}, "holds -2, but sizes >= -1"),
        ({"io_bindings": [{"name": "x", "shape": [True]}]}, "holds True, but sizes >= -1"),
        ({"io_bindings": [{"name": "x"}, {"name": "x"}]}, "Two bindings are called 'x'"),
        ({"io_bindings": [{"name": ""}]}, "empty name"),
        ({"io_bindings": [{"name": "y"}, {"name": "x", "is_input": True}]}, "'x' stands behind an output"),
        ({"aliased_io": [{"output": "x.0", "input": "y.0"}]}, "does not name an output and an input"),
        ({"aliased_io": [{"output": "y.0", "input": "x.0", "kind": "odd"}]}, "of kind 'odd'"),
        ({"device_id": 128}, "device_id is 128"),
        ({"device_id": True}, "'device_id' is True, but a int is expected"),
        ({"layers": "many"}, "'layers' is 'many'"),
        ({"build_seconds": "long"}, "'build_seconds' is 'long', but a number is expected"),
        ({"tensorrt": []}, "'tensorrt' is \\[\\], but a dict is expected"),
    ],
)
def test_refuses_bad_metadata(changes, text):
    with pytest.raises(BlobError, match=text):
        unpack_blob(with_json(**changes))


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff\xff", b"[" * 100_000, b'{"io_bindings":NaN}'])
def test_refuses_what_is_not_a_json_object(text):
    with pytest.raises(BlobError):
        unpack_blob(rebuilt(pack_blob(PLAIN, b"ENGINE"), text=text))


def test_refuses_a_missing_list_of_bindings():
    with pytest.raises(BlobError, match="lacks the key 'io_bindings'"):
        unpack_blob(rebuilt(pack_blob(PLAIN, b"ENGINE"), text=b"{}"))
