"""Runs Python code with the package of a build folder, against the fake CUDA runtime and the fake TensorRT."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from .process import PACKAGE, Result, run_code

BUILD = Path(os.environ.get("TTER_FAKES_BUILD") or Path(__file__).parents[2] / "build" / "dev")
LIBRARIES = BUILD / "fakes" / "lib"
PROGRAMS = BUILD / "tests" / "programs"
RTX = LIBRARIES / "libtensorrt_rtx.so.1"

needs_fakes = pytest.mark.skipif(
    not (BUILD / "package").is_dir() and "TTER_FAKES_BUILD" not in os.environ,
    reason="the fakes are not built: cmake --preset dev && cmake --build --preset dev",
)

SETUP = f"""
import json, traceback
import torch
import {PACKAGE} as package
from executorch.runtime import Runtime
from torch.testing import assert_close as same

x = torch.arange(6.0).reshape(2, 3)
kept = []  # a method does not keep its program

def load(name, method="forward"):
    program = Runtime.get().load_program({str(PROGRAMS)!r} + f"/{{name}}.pte")
    kept.append(program)
    return program.load_method(method)
"""


def on_fakes(
    call: Callable[..., Result], *arguments: object, library: Path | str = RTX, env: Mapping[str, str] | None = None
) -> Result:
    """Run something with the package of the build folder, which has the fake CUDA runtime inside."""
    environment = {"TENSORRT_EXECUTORCH_LIBRARY": str(library), **(env or {})}
    return call(*arguments, path=[BUILD / "package"], env=environment)


def outcomes_of(cases: Mapping[str, str], setup: str = SETUP) -> dict[str, str]:
    """Run lines of Python in one process, because importing torch and ExecuTorch takes seconds.

    Returns:
        What became of each case: an empty text, or the traceback.
    """
    lines = [setup, "outcomes = {}"]
    for name, code in cases.items():
        body = textwrap.indent(textwrap.dedent(code).strip(), "    ")
        lines += ["try:", body, f"    outcomes[{name!r}] = ''"]
        lines += ["except Exception:", f"    outcomes[{name!r}] = traceback.format_exc()"]
    lines.append("print(json.dumps(outcomes))")
    result = on_fakes(run_code, "\n".join(lines))
    assert result.code == 0, result.err
    document: dict[str, str] = result.json
    return document
