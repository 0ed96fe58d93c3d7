"""Python and the command line in processes of their own: what a test loads stays out of the other tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "torch_tensorrt_executorch_runtime"


@dataclass(frozen=True)
class Result:
    """What a process printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def last_line(self) -> str:
        return self.err.strip().splitlines()[-1]


def python(
    *arguments: str,
    path: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    flags: Sequence[str] = (),
) -> Result:
    """Run Python in a fresh process, with folders before everything else on its path."""
    folders = [*map(str, path), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    environment.pop("TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION", None)
    done = subprocess.run(
        [sys.executable, *flags, *arguments],
        env=environment | dict(env or {}),
        cwd=cwd or tempfile.gettempdir(),  # not the source folder, which `-c` and `-m` would put first
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def run_code(code: str, **options: Any) -> Result:
    """Run lines of Python in a fresh process."""
    return python("-c", textwrap.dedent(code), **options)


def import_error(**options: Any) -> str:
    """Import the package in a fresh process, which must fail with DelegateCompatibilityError; return its text."""
    result = run_code(
        f"""
        try:
            import {PACKAGE}
        except ImportError as error:
            assert type(error).__name__ == "DelegateCompatibilityError", type(error)
            print(error)
        else:
            raise SystemExit("the import worked")
        """,
        **options,
    )
    assert result.code == 0, result.err
    return result.out.strip()


def command(*arguments: str | Path, **options: Any) -> Result:
    """Run ``trt-executorch`` as a module in a fresh process."""
    return python("-m", PACKAGE, *map(str, arguments), **options)
