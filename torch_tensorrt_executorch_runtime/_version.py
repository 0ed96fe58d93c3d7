"""The version of the installed package; its only home is ``pyproject.toml``."""

from __future__ import annotations

import importlib.metadata

__all__ = ["__version__"]

try:
    __version__ = importlib.metadata.version("torch-tensorrt-executorch-runtime")
except importlib.metadata.PackageNotFoundError:  # a source folder on the path, with nothing installed
    __version__ = "0+unknown"
