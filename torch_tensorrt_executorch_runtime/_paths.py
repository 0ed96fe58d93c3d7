"""Where the files of this package and of the installed ExecuTorch are. Nothing here loads a library."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

__all__ = ["cmake_prefix_path", "executorch_folder", "include_path", "library_path", "tensorrt_search_folders"]

_TENSORRT_FOLDERS = ("tensorrt_rtx_libs", "tensorrt_libs", "tensorrt_lean_libs", "tensorrt_dispatch_libs")
_PACKAGE_FOLDER = Path(__file__).resolve().parent


def library_path() -> Path:
    """Path of the delegate library, whether or not it exists."""
    # Not the resolved folder: in a build tree the Python files are links while `lib/` is beside the links.
    return Path(__file__).parent / "lib" / "libexecutorch_backend_tensorrt.so"


def include_path() -> Path:
    """Folder of the C++ headers, to be given to a compiler with ``-I``."""
    return _PACKAGE_FOLDER / "include"


def cmake_prefix_path() -> str:
    """Folders for ``-DCMAKE_PREFIX_PATH``: of ExecuTorch's CMake package and of this one, joined by ``;``.

    Raises:
        importlib.metadata.PackageNotFoundError: ExecuTorch is not installed.
    """
    return f"{executorch_folder() / 'share' / 'cmake'};{Path(__file__).parent}"


def executorch_folder() -> Path:
    """Folder of the installed ``executorch`` package.

    ``executorch`` is a namespace package, so it has no ``__file__``; its distribution knows the place.

    Raises:
        importlib.metadata.PackageNotFoundError: ExecuTorch is not installed.
    """
    folder = Path(str(importlib.metadata.distribution("executorch").locate_file("executorch")))
    if (folder / "lib").is_dir():
        return folder
    spec = importlib.util.find_spec("executorch")  # an editable install lives somewhere else
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "lib").is_dir():
            return Path(place)
    return folder


def tensorrt_search_folders() -> list[Path]:
    """Folders of ``sys.path`` that hold a TensorRT wheel, in the order of ``sys.path``."""
    folders = (Path(entry) for entry in dict.fromkeys(sys.path) if entry)
    return [folder for folder in folders if any((folder / name).is_dir() for name in _TENSORRT_FOLDERS)]
