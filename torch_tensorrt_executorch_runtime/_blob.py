"""The delegate blob: one TensorRT engine with a description of its bindings.

Layout (little endian): a 32-byte header, JSON metadata, zero bytes up to the next multiple of 16, the
engine. ``docs/format.md`` states the rules; the C++ reader is ``src/blob``. This module needs neither
torch nor TensorRT.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch_tensorrt_executorch_runtime._digest import engine_digest
from torch_tensorrt_executorch_runtime._errors import BlobError

__all__ = [
    "BACKEND_ID",
    "RESERVED_NAMES",
    "Alias",
    "Binding",
    "Blob",
    "BlobMetadata",
    "Profile",
    "TensorRTVersion",
    "pack_blob",
    "unpack_blob",
]

BACKEND_ID = "TensorRTBackend"
MAGIC = b"TR01"
MAGIC_WITH_ALIASES = b"TR02"
ENGINE_ALIGNMENT = 16
METADATA_LIMIT = 16 * 1024 * 1024

_HEADER = struct.Struct("<4sIIIQ8s")
_RESERVED = b"\x01" + bytes(7)
_ALIAS_KINDS = ("kv_cache_update", "user")
_MAX_DEVICE = 127

# Readers that search the text for a key would take a tensor of that name for the key itself.
RESERVED_NAMES = frozenset(
    {
        "aliased_io",
        "build_seconds",
        "compute_capabilities",
        "device_id",
        "dtype",
        "engine_sha256",
        "hardware_compatible",
        "input",
        "io_bindings",
        "is_input",
        "kind",
        "layers",
        "name",
        "output",
        "profile",
        "serialized_metadata",
        "shape",
        "target_platform",
        "tensorrt",
    }
)


@dataclass(frozen=True)
class Profile:
    """The smallest, the tuned and the largest shape of one dynamic input."""

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]


@dataclass(frozen=True)
class Binding:
    """One tensor of the engine.

    ``dtype`` is a torch name without its prefix, or empty when the writer did not know it. ``shape`` has -1
    for a dynamic size and is only meaningful when ``dtype`` is not empty.
    """

    name: str
    is_input: bool
    dtype: str = ""
    shape: tuple[int, ...] = ()
    profile: Profile | None = None


@dataclass(frozen=True)
class Alias:
    """An output that is written into the memory of an input."""

    output: str
    input: str
    kind: str = "kv_cache_update"


@dataclass(frozen=True)
class TensorRTVersion:
    """Which TensorRT built the engine: ``flavor`` is ``rtx`` or ``tensorrt``."""

    flavor: str
    version: str


@dataclass(frozen=True)
class BlobMetadata:
    """What a blob says about its engine. The fields from ``engine_sha256`` on may be unknown."""

    bindings: tuple[Binding, ...] = ()
    aliases: tuple[Alias, ...] = ()
    hardware_compatible: bool = False
    device_id: int = 0
    serialized_metadata: str = ""
    target_platform: str = ""
    engine_sha256: str | None = None
    tensorrt: TensorRTVersion | None = None
    compute_capabilities: tuple[str, ...] | None = None
    layers: int | None = None
    build_seconds: float | None = None

    @property
    def inputs(self) -> tuple[Binding, ...]:
        """The input bindings in the order of the delegate's arguments."""
        return tuple(binding for binding in self.bindings if binding.is_input)

    @property
    def outputs(self) -> tuple[Binding, ...]:
        """The output bindings in the order of the delegate's arguments."""
        return tuple(binding for binding in self.bindings if not binding.is_input)


@dataclass(frozen=True)
class Blob:
    """A complete blob: its description and the engine's bytes."""

    metadata: BlobMetadata
    engine: memoryview = field(repr=False)


def pack_blob(metadata: BlobMetadata, engine: bytes | bytearray | memoryview) -> bytes:
    """Write one blob. The digest of the engine is added to the metadata.

    Args:
        metadata: Description of the engine; ``engine_sha256`` is computed here and need not be set.
        engine: The serialized engine.

    Returns:
        The blob. Equal arguments give equal bytes.

    Raises:
        BlobError: A name, alias or device that the format cannot carry.
    """
    _check_metadata(metadata)
    text = json.dumps(_to_json(metadata, engine_digest(engine)), separators=(",", ":")).encode("ascii")
    if len(text) > METADATA_LIMIT:
        raise BlobError(
            f"The metadata has {len(text)} bytes, but at most {METADATA_LIMIT} are allowed. Use shorter tensor names."
        )
    engine_offset = -(-(_HEADER.size + len(text)) // ENGINE_ALIGNMENT) * ENGINE_ALIGNMENT
    magic = MAGIC_WITH_ALIASES if metadata.aliases else MAGIC
    header = _HEADER.pack(magic, _HEADER.size, len(text), engine_offset, len(engine), _RESERVED)
    padding = bytes(engine_offset - _HEADER.size - len(text))
    return b"".join((header, text, padding, engine))


def unpack_blob(data: bytes | bytearray | memoryview) -> Blob:
    """Read one blob and check everything that can be checked without TensorRT.

    Args:
        data: One complete blob. Bytes behind the engine are ignored.

    Returns:
        The blob; its engine is a view into ``data``.

    Raises:
        BlobError: The bytes are no blob, or are damaged; the text names the field and its value.
    """
    view = memoryview(data).cast("B")
    text, engine = _split(view)
    metadata = _from_json(_parse_json(text))
    _check_metadata(metadata)
    if metadata.engine_sha256 is not None:
        found = engine_digest(engine)
        if found != metadata.engine_sha256:
            raise BlobError(
                f"The engine's SHA-256 is {found}, but the blob states {metadata.engine_sha256}: the file is damaged. "
                "Copy or export it again."
            )
    return Blob(metadata, engine)


def _split(view: memoryview) -> tuple[memoryview, memoryview]:
    if len(view) < _HEADER.size:
        raise BlobError(f"The blob has {len(view)} bytes, but its header alone needs {_HEADER.size}. Export it again.")
    magic, text_offset, text_size, engine_offset, engine_size, _ = _HEADER.unpack(view[: _HEADER.size])
    if magic not in (MAGIC, MAGIC_WITH_ALIASES):
        raise BlobError(f"The blob starts with {magic!r}, but TR01 or TR02 is expected. Export it with this package.")
    if text_offset < _HEADER.size:
        raise BlobError(f"metadata_offset is {text_offset}, inside the header of {_HEADER.size} bytes: damaged blob.")
    if text_size > METADATA_LIMIT:
        raise BlobError(f"metadata_size is {text_size}, but at most {METADATA_LIMIT} is allowed: damaged blob.")
    if text_offset + text_size > len(view):
        raise BlobError(
            f"The metadata ends at byte {text_offset + text_size}, but the blob has {len(view)}: the file is cut off."
        )
    if engine_offset % ENGINE_ALIGNMENT:
        raise BlobError(f"engine_offset is {engine_offset}, not a multiple of {ENGINE_ALIGNMENT}: damaged blob.")
    if engine_offset < text_offset + text_size:
        raise BlobError(
            f"The engine starts at byte {engine_offset}, but the metadata ends at {text_offset + text_size}: "
            "damaged blob."
        )
    if engine_offset + engine_size > len(view):
        raise BlobError(
            f"The engine ends at byte {engine_offset + engine_size}, but the blob has {len(view)}: the file is cut off."
        )
    return view[text_offset : text_offset + text_size], view[engine_offset : engine_offset + engine_size]


def _parse_json(text: memoryview) -> Mapping[str, Any]:
    try:
        parsed = json.loads(bytes(text).decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BlobError(f"The metadata is not JSON in UTF-8 ({error}): damaged blob.") from error
    if not isinstance(parsed, dict):
        raise BlobError(f"The metadata is a JSON {type(parsed).__name__}, but an object is expected: damaged blob.")
    return parsed


def _to_json(metadata: BlobMetadata, digest: str) -> dict[str, Any]:
    # Older readers search forward for these keys, so the first six must keep this order.
    document: dict[str, Any] = {
        "io_bindings": [_binding_to_json(binding) for binding in metadata.bindings],
        "aliased_io": [{"output": a.output, "input": a.input, "kind": a.kind} for a in metadata.aliases],
        "hardware_compatible": metadata.hardware_compatible,
        "device_id": metadata.device_id,
        "serialized_metadata": metadata.serialized_metadata,
        "target_platform": metadata.target_platform,
        "engine_sha256": digest,
    }
    if metadata.tensorrt is not None:
        document["tensorrt"] = {"flavor": metadata.tensorrt.flavor, "version": metadata.tensorrt.version}
    if metadata.compute_capabilities is not None:
        document["compute_capabilities"] = list(metadata.compute_capabilities)
    if metadata.layers is not None:
        document["layers"] = metadata.layers
    if metadata.build_seconds is not None:
        document["build_seconds"] = metadata.build_seconds
    return document


def _binding_to_json(binding: Binding) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": binding.name,
        "dtype": binding.dtype,
        "shape": list(binding.shape),
        "is_input": binding.is_input,
    }
    if binding.profile is not None:
        profile = binding.profile
        record["profile"] = {"min": list(profile.min), "opt": list(profile.opt), "max": list(profile.max)}
    return record


def _from_json(document: Mapping[str, Any]) -> BlobMetadata:
    reader = _Reader(document, "metadata")
    capabilities = reader.get("compute_capabilities", list, None)
    version = reader.get("tensorrt", dict, None)
    return BlobMetadata(
        bindings=tuple(_binding_from_json(item) for item in reader.records("io_bindings", required=True)),
        aliases=tuple(_alias_from_json(item) for item in reader.records("aliased_io")),
        hardware_compatible=reader.get("hardware_compatible", bool, False),
        device_id=reader.get("device_id", int, 0),
        serialized_metadata=reader.get("serialized_metadata", str, ""),
        target_platform=reader.get("target_platform", str, ""),
        engine_sha256=reader.get("engine_sha256", str, None),
        tensorrt=None if version is None else _version_from_json(version),
        compute_capabilities=None if capabilities is None else tuple(str(item) for item in capabilities),
        layers=reader.get("layers", int, None),
        build_seconds=reader.get("build_seconds", (int, float), None),
    )


def _version_from_json(document: Mapping[str, Any]) -> TensorRTVersion:
    reader = _Reader(document, "tensorrt")
    return TensorRTVersion(flavor=reader.get("flavor", str, ""), version=reader.get("version", str, ""))


def _binding_from_json(document: Mapping[str, Any]) -> Binding:
    reader = _Reader(document, "io_bindings entry")
    profile = reader.get("profile", dict, None)
    return Binding(
        name=reader.get("name", str),
        is_input=reader.get("is_input", bool, False),
        dtype=reader.get("dtype", str, ""),
        shape=reader.shape("shape"),
        profile=None if profile is None else _profile_from_json(profile),
    )


def _profile_from_json(document: Mapping[str, Any]) -> Profile:
    reader = _Reader(document, "profile")
    return Profile(min=reader.shape("min"), opt=reader.shape("opt"), max=reader.shape("max"))


def _alias_from_json(document: Mapping[str, Any]) -> Alias:
    reader = _Reader(document, "aliased_io entry")
    return Alias(
        output=reader.get("output", str),
        input=reader.get("input", str),
        kind=reader.get("kind", str, "kv_cache_update"),
    )


_REQUIRED: Any = object()


class _Reader:
    """Typed access to one JSON object; every refusal names the key, the value and what was expected."""

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self._document = document
        self._where = where

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = _REQUIRED) -> Any:
        """Return the value under ``key``, which must be of ``kind``."""
        value = self._document.get(key, default)
        if value is _REQUIRED:
            raise BlobError(f"{self._where} lacks the key {key!r}: damaged blob.")
        if value is default:
            return default
        wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        if wrong:
            expected = kind.__name__ if isinstance(kind, type) else "number"
            raise BlobError(f"{self._where}: {key!r} is {value!r:.60}, but a {expected} is expected: damaged blob.")
        return value

    def records(self, key: str, *, required: bool = False) -> Iterator[Mapping[str, Any]]:
        """Yield the objects of the array under ``key``."""
        for item in self.get(key, list, _REQUIRED if required else []):
            if not isinstance(item, dict):
                raise BlobError(f"{self._where}: an entry of {key!r} is {item!r:.60}, but an object is expected.")
            yield item

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the array of sizes under ``key``; -1 stands for a dynamic size."""
        sizes = self.get(key, list, [])
        for size in sizes:
            if isinstance(size, bool) or not isinstance(size, int) or size < -1:
                raise BlobError(f"{self._where}: {key!r} holds {size!r:.60}, but sizes >= -1 are expected.")
        return tuple(sizes)


def _check_metadata(metadata: BlobMetadata) -> None:
    if not 0 <= metadata.device_id <= _MAX_DEVICE:
        raise BlobError(f"device_id is {metadata.device_id}, but 0 to {_MAX_DEVICE} is allowed.")
    names: set[str] = set()
    seen_output = False
    for binding in metadata.bindings:
        if not binding.name:
            raise BlobError("A binding has an empty name. Every tensor of an engine has a name.")
        if binding.name in names:
            raise BlobError(f"Two bindings are called {binding.name!r}, but the names of an engine's tensors differ.")
        if binding.is_input and seen_output:
            raise BlobError(f"The input {binding.name!r} stands behind an output, but all inputs come first.")
        names.add(binding.name)
        seen_output = seen_output or not binding.is_input
    _check_aliases(metadata)


def _check_aliases(metadata: BlobMetadata) -> None:
    inputs = {binding.name for binding in metadata.inputs}
    outputs = {binding.name for binding in metadata.outputs}
    used: set[str] = set()
    for alias in metadata.aliases:
        if alias.kind not in _ALIAS_KINDS:
            raise BlobError(f"The alias of {alias.output!r} is of kind {alias.kind!r}; known are {_ALIAS_KINDS}.")
        if metadata.bindings and (alias.output not in outputs or alias.input not in inputs):
            raise BlobError(
                f"The alias of {alias.output!r} on {alias.input!r} does not name an output and an input of the engine."
            )
        if alias.output in used or alias.input in used:
            raise BlobError(f"{alias.output!r} or {alias.input!r} is part of two aliases, but one is allowed.")
        used.update((alias.output, alias.input))
