"""``trt-executorch doctor``: what this machine has and what is missing."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from torch_tensorrt_executorch_runtime._errors import DelegateCompatibilityError
from torch_tensorrt_executorch_runtime._info import delegate_info, installed
from torch_tensorrt_executorch_runtime.cli import _output

__all__ = ["doctor"]


def doctor(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """Say what this machine has to run programs, and what is missing.

    Ends with 1 when the delegate cannot be registered; a missing GPU or TensorRT is only reported.
    """
    try:
        info, error = delegate_info(), ""
    except DelegateCompatibilityError as failure:
        info, error = installed(), str(failure)
    if as_json:
        _output.print_json(info | {"error": error or None})
    else:
        _show(info)
    if error:
        _output.fail(error)
        raise typer.Exit(1)


def _show(info: dict[str, Any]) -> None:
    rows = _output.table("part", "found")
    executorch = info["executorch"]
    rows.add_row("delegate", f"{info['version']}, {info['library']}")
    rows.add_row("registered", "yes" if info["registered"] else "no")
    if executorch["version"]:
        build = "CUDA build" if executorch["cuda_build"] else "CPU build"
        rows.add_row("ExecuTorch", f"{executorch['version']} ({build}), {executorch['folder']}")
    else:
        rows.add_row("ExecuTorch", "not installed")
    rows.add_row("torch", info["torch"]["version"] or "not installed")
    if "cuda" in info:
        _add_machine(rows, info)
    console = _output.console()
    console.print(rows)
    for sentence in info["missing"]:
        console.print(f"! {sentence}")


def _add_machine(rows: Table, info: dict[str, Any]) -> None:
    allocator = info["device_allocator"]
    rows.add_row(
        "device memory", "from this delegate" if allocator["ours"] else f"not from here: {allocator['reason']}"
    )
    cuda = info["cuda"]
    rows.add_row("CUDA driver", cuda["driver"] or cuda["error"] or "none")
    for device in cuda["devices"]:
        size = _output.describe_size(device["memory_bytes"])
        rows.add_row(f"GPU {device['index']}", f"{device['name']}, {device['compute_capability']}, {size}")
    for flavor, library in info["tensorrt"].items():
        text = f"{library['version']}, {library['path']}" if library["version"] else _why_not(library["error"] or "")
        rows.add_row(f"TensorRT {flavor}", text)


def _why_not(error: str) -> str:
    """Leave out the places where there is simply nothing; what was found and refused matters. JSON has them all."""
    absent = ("no such file", "not loaded in this process", "No such file or directory")
    another = "TENSORRT_EXECUTORCH_LIBRARY: names"  # a library, but of another flavour
    found = [place for place in error.split("; ") if not place.endswith(absent) and not place.startswith(another)]
    return f"refused: {'; '.join(found)}" if found else "not found"
