"""Takes the only engine out of a program: ``python -m gpu.every_tensor.engine PROGRAM ENGINE``."""

from __future__ import annotations

import sys
from pathlib import Path

from gpu.blobs import find_blobs

if __name__ == "__main__":
    (blob,) = find_blobs(Path(sys.argv[1]))
    Path(sys.argv[2]).write_bytes(blob.engine)
