"""Writes blobs with the exporter's writer, for the C++ reader: ``python write_blobs.py FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION"] = "1"  # only the writer is needed, and nothing is built yet

from torch_tensorrt_executorch_runtime._blob import (
    Alias,
    Binding,
    BlobMetadata,
    Profile,
    TensorRTVersion,
    pack_blob,
)


def main() -> None:
    """Write every blob."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    x = Binding("x.0", is_input=True, dtype="float16", shape=(-1, 3), profile=Profile((1, 3), (4, 3), (8, 3)))
    state = Binding('aliased_io "state"', is_input=True, dtype="int64", shape=())
    y = Binding("y\\0", is_input=False, dtype="bool", shape=(-1,))
    updated = Binding("new state", is_input=False, dtype="int64", shape=())
    plain = BlobMetadata(bindings=(Binding("x", is_input=True), Binding("y", is_input=False)))
    rich = BlobMetadata(
        bindings=(x, state, y, updated),
        aliases=(Alias("new state", 'aliased_io "state"', "user"),),
        hardware_compatible=True,
        device_id=3,
        serialized_metadata='{"inputs": ["\\u00e9"]}',
        target_platform="linux_x86_64",
        tensorrt=TensorRTVersion("rtx", "1.6.1.120"),
        compute_capabilities=("8.0", "9.0"),
        layers=62,
        build_seconds=0.25,
    )
    (folder / "plain.blob").write_bytes(pack_blob(plain, b"ENGINE"))
    (folder / "rich.blob").write_bytes(pack_blob(rich, b"vtrt" + bytes(range(256))))


if __name__ == "__main__":
    main()
