"""``trt-executorch check``: would this file run here?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torch_tensorrt_executorch_runtime._compatibility import check_program, this_machine
from torch_tensorrt_executorch_runtime.cli import _output
from torch_tensorrt_executorch_runtime.inspect import inspect_program

__all__ = ["check"]


def check(
    file: Annotated[Path, typer.Argument(help="A .pte file.", show_default=False)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say whether a program would run on this machine, without loading it.

    Compares TensorRT and its version, the GPU, and ExecuTorch's backends and operators with what the file needs. Ends
    with 1 when something stands against it.
    """
    verdict = check_program(inspect_program(file), this_machine())
    if as_json:
        _output.print_json(
            {"file": str(file), "runs": verdict.runs, "problems": verdict.problems, "notes": verdict.notes}
        )
    else:
        console = _output.console()
        for note in verdict.notes:
            console.print(f"note: {note}")
        if verdict.runs:
            console.print(f"{file}: nothing stands against running it here.")
    for problem in verdict.problems if not as_json else ():
        _output.fail(problem)
    if not verdict.runs:
        raise typer.Exit(1)
