"""What a benchmark says of the machine and the program, beside its times."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_tensorrt_executorch_runtime._info import delegate_info
from torch_tensorrt_executorch_runtime._options import get_option
from torch_tensorrt_executorch_runtime.inspect import EngineInfo, MethodInfo

__all__ = ["kept_kernels", "machine_facts", "notes_on", "origin_of_kernels", "program_facts"]

_COPIES = "et_copy::"
_FLAVOURS = {"rtx": ("rtx",), "tensorrt": ("full", "lean", "dispatch"), "unknown": ()}


def machine_facts(method: MethodInfo, engines: list[dict[str, Any]]) -> dict[str, Any]:
    info = delegate_info()
    numbers = sorted({engine["device"] for engine in engines})
    libraries = [info["tensorrt"][name] for name in _library_names(method.engines)]
    library = next((found for found in libraries if found["version"]), {"version": None, "path": None})
    return {
        "gpus": [device for device in info["cuda"]["devices"] if device["index"] in numbers],
        "versions": {
            "torch_tensorrt_executorch_runtime": info["version"],
            "executorch": info["executorch"]["version"],
            "torch": info["torch"]["version"],
            "python": info["python"],
            "cuda_driver": info["cuda"]["driver"],
            "cuda_runtime": info["cuda"]["runtime"],
            "tensorrt": library["version"],
            "tensorrt_library": library["path"],
        },
    }


def _library_names(engines: tuple[EngineInfo, ...]) -> list[str]:
    return [name for engine in engines[:1] for name in _FLAVOURS[engine.flavor]]


def program_facts(file: Path, method: MethodInfo) -> dict[str, Any]:
    return {
        "size_bytes": file.stat().st_size,
        "inputs": [dataclasses.asdict(value) for value in method.inputs],
        "outputs": [dataclasses.asdict(value) for value in method.outputs],
        "engines": [
            {
                "flavor": engine.flavor,
                "version": engine.version,
                "size_bytes": engine.size_bytes,
                "layers": engine.layers,
                "sha256": engine.sha256,
            }
            for engine in method.engines
        ],
        "operators": [dataclasses.asdict(operator) for operator in method.operators],
        "planned_memory": [dataclasses.asdict(memory) for memory in method.memory],
    }


def notes_on(method: MethodInfo, wanted: Mapping[str, str]) -> list[str]:
    """Say what a reader of the numbers must know about the program.

    Args:
        method: What was measured.
        wanted: Options of the command that were switched on, with the keys under which a file can refuse them.
    """
    notes = []
    if not method.engines:
        notes.append("The method has no TensorRT engine, so there is nothing to compare with.")
    for option, key in wanted.items():
        vetoes = [item for item in method.delegates if item.engine is not None and item.compile_specs.get(key) == "0"]
        if vetoes:
            notes.append(
                f"{option} has no effect on {len(vetoes)} of {len(method.engines)} engines, which were exported with "
                f"{key}=False. Export them without it."
            )
    copies = sum(item.calls for item in method.operators if item.name.startswith(_COPIES))
    if copies and method.engines:
        notes.append(
            f"The delegate's calls hold {copies} copies between host and device, which the bare engines do not make: "
            "their tensors are on the device."
        )
    if any(value.device != "cpu" for value in method.outputs):
        notes.append("ExecuTorch's Python code clones outputs on the GPU, which takes a kernel for each of them.")
    outside = [item.name for item in method.operators if not item.name.startswith(_COPIES)]
    if outside and method.engines:
        notes.append(f"The delegate's calls hold operators outside of the engines as well: {', '.join(outside)}.")
    return notes


def kept_kernels(method: MethodInfo) -> set[str]:
    """Return the digests of the method's engines for which compiled kernels lie in the cache folder."""
    folder = Path(str(get_option("runtime_cache_folder")))
    return {engine.sha256 for engine in method.engines if any(folder.glob(f"{engine.sha256}-*"))}


def origin_of_kernels(method: MethodInfo, before: set[str], after: set[str]) -> str | None:
    """Say where the kernels of TensorRT-RTX came from, as far as the file and the cache folder tell.

    Args:
        method: What was loaded.
        before: `kept_kernels` before the load.
        after: `kept_kernels` after it.

    Returns:
        None for engines of TensorRT, which hold their kernels.
    """
    engines = {engine.sha256 for engine in method.engines if engine.flavor == "rtx"}
    carried = _carried_kernels(method)
    sources = {
        "found in the program": engines & carried,
        "found in the cache": engines & before - carried,
        "compiled": engines & after - before - carried,
        "neither found nor kept": engines - after - before - carried,
    }
    counts = {source: len(found) for source, found in sources.items() if found}
    if len(counts) < 2:
        return next(iter(counts), None)
    return ", ".join(f"{count} {source}" for source, count in counts.items())


def _carried_kernels(method: MethodInfo) -> set[str]:
    """Return the digests of the engines whose kernels the file holds for this machine."""
    info = delegate_info()
    version = info["tensorrt"]["rtx"]["version"]
    gpus = {device["index"]: device["name"] for device in info["cuda"]["devices"]}
    return {
        engine.sha256
        for engine in method.engines
        for kernels in engine.kernels
        if kernels.whole and kernels.version == version and kernels.gpu == gpus.get(engine.device_id)
    }
