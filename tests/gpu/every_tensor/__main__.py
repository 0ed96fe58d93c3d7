"""Checks that every tensor arrives right: ``python -m gpu.every_tensor --programs FOLDER --gpu-cases PROGRAM``.

Writes the result file after each check, so that a run that is cut short leaves what it had found.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from gpu.results import Recorder, summary

from . import cpp_cases

CPP_CASES = (
    "memory_modes",
    "pointer_kinds",
    "other_gpu",
    "device_path",
    "streams",
    "threads",
    "load_rounds",
    "host_path",
    "green_context",
)
EXPECTED = (
    "device_path.copies",
    "device_path.host_waits",
    "side_stream.right",
    "host_path_vs_pinned.1mb",
    "host_path_vs_pinned.64mb",
    "call_vs_bare_enqueue.resnet18",
    "call_vs_bare_enqueue.encoder",
    "green_context.right",
)
"""The checks that the file must have; each case adds its own."""

CALL_LIMITS = {"resnet18": 1.03, "encoder": 1.06}


def _python_cases(programs: Path, recorder: Recorder) -> None:
    from . import python_cases
    from .device_programs import Programs

    for name, case in python_cases.CASES.items():
        try:
            wrong = case(Programs(programs))
        except Exception as error:
            traceback.print_exc()
            recorder.broken(name, f"{type(error).__name__}: {error}")
            continue
        if not recorder.check(name, wrong, limit=0, unit="elements, outputs or calls that are wrong"):
            print(f"  {name}: {wrong} wrong", flush=True)
    print(f"  {len(python_cases.CASES)} cases of Python: done", flush=True)


def _call_overhead(results: Path | None, recorder: Recorder) -> None:
    """Take over what benchmarks/call_overhead measured, one JSON file for each model."""
    from gpu.every_tensor.overhead import read_overhead

    for model, values in read_overhead(results).items():
        recorder.check(
            f"call_vs_bare_enqueue.{model}",
            values["ratio.call_vs_bare_enqueue"],
            limit=CALL_LIMITS[model],
            unit="times the bare enqueue and a wait",
        )
        recorder.note("call_overhead", **{f"{model}.{key}": value for key, value in values.items()})


def main() -> int:
    """Run the cases and return 0 when all are good."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--gpu-cases", type=Path, required=True)
    parser.add_argument("--call-overhead", type=Path, help="folder with <model>.json of benchmarks/call_overhead")
    parser.add_argument("--only", nargs="+", choices=CPP_CASES, help="these C++ cases and nothing else")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.unlink(missing_ok=True)
    recorder = Recorder(arguments.output, expected=() if arguments.only else EXPECTED)
    recorder.write()
    for case in arguments.only or CPP_CASES:
        cpp_cases.run(arguments.gpu_cases, case, arguments.programs, recorder)
    for part in (
        ()
        if arguments.only
        else (
            lambda: _call_overhead(arguments.call_overhead, recorder),
            lambda: _python_cases(arguments.programs, recorder),
        )
    ):
        try:
            part()
        except Exception:
            traceback.print_exc()
    return 0 if summary(arguments.output) else 1


if __name__ == "__main__":
    sys.exit(main())
