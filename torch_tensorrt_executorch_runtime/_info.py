"""What this process and this machine have, and what is missing, as plain data."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

from packaging.version import InvalidVersion, Version

from torch_tensorrt_executorch_runtime import _loader, _paths
from torch_tensorrt_executorch_runtime._version import __version__

__all__ = ["delegate_info"]

_DISTRIBUTION = "torch-tensorrt-executorch-runtime"
_FIRST_TORCH = Version("2.13")  # before it, the inline layout of tensors differs from what ExecuTorch was built with
_FLAVOURS = ("rtx", "full", "lean", "dispatch")


def delegate_info() -> dict[str, Any]:
    """Say what the delegate found in this process and on this machine, and what is missing to run a program.

    Returns:
        A dictionary that ``json.dumps`` accepts: ``version``, ``library``, ``registered``, ``skipped``,
        ``executorch``, ``torch``, ``device_allocator``, ``cuda`` (driver and devices), ``tensorrt`` (per flavour: path
        and version, or the reason why not), and ``missing``, a list of sentences that is empty when all is there.

    Raises:
        DelegateCompatibilityError: The delegate cannot be registered.

    Example:
        >>> import torch_tensorrt_executorch_runtime as tter
        >>> tter.delegate_info()["registered"]
        True
    """
    info = installed()
    if not info["skipped"]:
        info |= _runtime(dict(_loader.native().describe()))
    info["missing"] = _missing(info)
    return info


def installed() -> dict[str, Any]:
    """Say what is installed, without loading anything: the part of `delegate_info` that cannot fail."""
    return {
        "version": __version__,
        "library": str(_paths.library_path()),
        "skipped": _loader.skipped(),
        "registered": False,
        "python": sys.version.split()[0],
        "executorch": _executorch(),
        "torch": _torch(),
        "missing": [],
    }


def _executorch() -> dict[str, Any]:
    version = _version("executorch")
    if version is None:
        return {"version": None, "folder": None, "cuda_build": False}
    folder = _paths.executorch_folder()
    cuda_build = (folder / "lib" / "libexecutorch_backend_cuda.so").is_file()
    return {"version": version, "folder": str(folder), "cuda_build": cuda_build}


def _torch() -> dict[str, Any]:
    version = _version("torch")
    return {"version": version, "passes_tensors": version is not None and _passes_tensors(version)}


def _passes_tensors(version: str) -> bool:
    try:
        return Version(version) >= _FIRST_TORCH
    except InvalidVersion:
        return False


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _runtime(facts: dict[str, str]) -> dict[str, Any]:
    module = _loader.native()
    return {
        "registered": module.is_registered(),
        "library_version": module.version(),
        "backends": module.registered_backends(),
        "device_allocator": {"ours": module.owns_device_allocator(), "reason": module.device_allocator_reason()},
        "cuda": _cuda(facts),
        "tensorrt": {flavour: _tensorrt(facts, flavour) for flavour in _FLAVOURS},
    }


def _cuda(facts: dict[str, str]) -> dict[str, Any]:
    return {
        "driver": facts.get("cuda.driver") or None,
        "runtime": facts.get("cuda.runtime") or None,
        "error": facts.get("cuda.error") or None,
        "devices": [_device(facts, index) for index in range(int(facts.get("cuda.devices") or 0))],
    }


def _device(facts: dict[str, str], index: int) -> dict[str, Any]:
    return {
        "index": index,
        "name": facts.get(f"device.{index}.name"),
        "compute_capability": facts.get(f"device.{index}.compute_capability"),
        "memory_bytes": int(facts.get(f"device.{index}.memory_bytes") or 0),
    }


def _tensorrt(facts: dict[str, str], flavour: str) -> dict[str, str | None]:
    return {key: facts.get(f"tensorrt.{flavour}.{key}") or None for key in ("path", "version", "error")}


def _missing(info: dict[str, Any]) -> list[str]:
    sentences = []
    if info["skipped"]:
        sentences.append(
            f"The delegate is not registered because {_loader.SKIP_VARIABLE} is set; unset it to run programs."
        )
    else:
        sentences += _missing_hardware(info["cuda"])
        sentences += _missing_tensorrt(info["tensorrt"])
    torch = info["torch"]["version"]
    if torch is None:
        sentences.append(
            "torch is not installed, so executorch.runtime cannot be imported in Python (C++ programs do not need it). "
            'Run: pip install "torch>=2.14,<2.15"'
        )
    elif not info["torch"]["passes_tensors"]:
        sentences.append(
            f"torch {torch} cannot pass tensors through executorch.runtime, which needs torch 2.13 or newer. "
            'Run: pip install "torch>=2.14,<2.15"'
        )
    return sentences


def _missing_hardware(cuda: dict[str, Any]) -> list[str]:
    if cuda["devices"]:
        return []
    cause = f" ({cuda['error']})" if cuda["error"] else ""
    return [
        f"No NVIDIA GPU can be used{cause}. Programs with TensorRT engines cannot run here; "
        "exporting and inspecting them can. On a machine with a GPU, install a driver for CUDA 13."
    ]


def _missing_tensorrt(libraries: dict[str, dict[str, str | None]]) -> list[str]:
    if any(library["version"] and not library["error"] for library in libraries.values()):
        return []
    return [
        "No TensorRT library was found, so no engine can run. Run: pip install "
        f'"{_DISTRIBUTION}[rtx]" for TensorRT-RTX engines, or "{_DISTRIBUTION}[tensorrt]" for TensorRT 11 engines.'
    ]
