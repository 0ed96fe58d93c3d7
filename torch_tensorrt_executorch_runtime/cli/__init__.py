"""The command ``trt-executorch``: parse, call, print. What it does is in the modules that it calls."""

from __future__ import annotations

import os
import sys

import typer

from torch_tensorrt_executorch_runtime._errors import DelegateError
from torch_tensorrt_executorch_runtime.cli import _output, bench, check, doctor, export, run, show

__all__ = ["app", "main"]

app = typer.Typer(
    name="trt-executorch",
    help="TensorRT engines in ExecuTorch programs: export, inspect, check, run and measure.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("doctor")(doctor.doctor)
app.command("inspect")(show.inspect)
app.command("check")(check.check)
app.command("export")(export.export)
app.command("run")(run.run)
app.command("bench")(bench.bench)


def main() -> None:
    """Run the command line. What a user can cause ends as one sentence and exit code 1; wrong usage is 2."""
    _output.calm_loggers()
    try:
        app()
    except BrokenPipeError:
        # The reader went away, as in `... | head`. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _output.fail(f"{error.filename}: {error.strerror}." if error.filename else str(error))
        sys.exit(1)
    except (DelegateError, ImportError) as error:  # of the latter: DelegateCompatibilityError, and torch not installed
        _output.fail(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
