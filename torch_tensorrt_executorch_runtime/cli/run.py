"""``trt-executorch run``: run a method of a program and time it."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from torch_tensorrt_executorch_runtime._errors import DelegateError
from torch_tensorrt_executorch_runtime.cli import _output
from torch_tensorrt_executorch_runtime.cli._inputs import make_inputs
from torch_tensorrt_executorch_runtime.cli._methods import find_method, first_line, load_method
from torch_tensorrt_executorch_runtime.inspect import inspect_program

__all__ = ["run"]

_SHOWN_VALUES = 5


def run(
    file: Annotated[Path, typer.Argument(help="A .pte file.", show_default=False)],
    *,
    method: Annotated[str, typer.Option(help="The method to run.")] = "forward",
    input_files: Annotated[
        list[Path] | None, typer.Option("--input", help="A .npy file for the next input. Default: random values.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The .ptd file that belongs to the program.")] = None,
    output_folder: Annotated[Path | None, typer.Option(help="Write each output there as output_<n>.npy.")] = None,
    repeat: Annotated[int, typer.Option(help="Calls to time, after one that is not timed.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the random values.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Run a method with random or given inputs; show its outputs and the time per call."""
    program = inspect_program(file)
    described = find_method(program, method)
    inputs = make_inputs(described, input_files or [], seed=seed)
    loaded = load_method(file, method, data)
    outputs, seconds = _call(loaded, inputs, repeat)
    if output_folder is not None:
        _write(outputs, output_folder)
    result = {
        "file": str(file),
        "method": method,
        "outputs": [_describe(output) for output in outputs],
        "calls": repeat,
        "median_ms": statistics.median(seconds) * 1e3,
        "fastest_ms": min(seconds) * 1e3,
    }
    if as_json:
        _output.print_json(result)
    else:
        _show(result)


def _call(loaded: Any, inputs: list[Any], repeat: int) -> tuple[list[Any], list[float]]:
    seconds = []
    try:
        outputs = list(loaded.execute(inputs))
        for _ in range(repeat):
            start = time.perf_counter()
            outputs = list(loaded.execute(inputs))
            seconds.append(time.perf_counter() - start)
    except RuntimeError as error:
        raise DelegateError(f"The call failed: {first_line(error)}. The log above has the cause.") from error
    return outputs, seconds


def _write(outputs: list[Any], folder: Path) -> None:
    import numpy  # noqa: PLC0415
    import torch  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    for index, output in enumerate(outputs):
        if isinstance(output, torch.Tensor):
            tensor = output.float() if output.dtype == torch.bfloat16 else output
            numpy.save(folder / f"output_{index}.npy", tensor.cpu().numpy())


def _describe(output: Any) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    if not isinstance(output, torch.Tensor):
        return {"type": type(output).__name__, "value": output}
    values = output.detach().cpu().flatten()
    return {
        "type": str(output.dtype).removeprefix("torch."),
        "shape": list(output.shape),
        "first": values[:_SHOWN_VALUES].tolist(),
        "finite": bool(torch.isfinite(values).all()),
        "mean": float(values.double().mean()) if values.numel() else None,
    }


def _show(result: dict[str, Any]) -> None:
    rows = _output.table("output", "type", "shape", "first values", "mean")
    for index, output in enumerate(result["outputs"]):
        first = ", ".join(f"{value:.6g}" for value in output.get("first", [output.get("value")]))
        mean = output.get("mean")
        rows.add_row(
            str(index),
            output["type"],
            str(output.get("shape", "")),
            first if output.get("finite", True) else f"{first} (not all finite)",
            "" if mean is None else f"{mean:.6g}",
        )
    console = _output.console()
    console.print(rows)
    console.print(
        f"{result['calls']} calls of {result['method']}: median {result['median_ms']:.3f} ms, "
        f"fastest {result['fastest_ms']:.3f} ms"
    )
