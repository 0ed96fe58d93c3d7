"""Runs cases of the C++ program `gpu_cases` and records what they say."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu.results import Recorder


def run(
    program: Path, case: str, programs: Path, recorder: Recorder, *, seconds: float = 90, environment: Any = None
) -> dict[str, float]:
    """Run one case in a process of its own; what it printed before an end of any kind is kept.

    Returns:
        The values without a limit that the case printed, by their keys.
    """
    command = [str(program), str(programs), case]
    log = recorder.path.with_suffix(f".{case}.log") if recorder.path else Path(os.devnull)
    try:
        with log.open("w") as errors:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=seconds,
                env={**os.environ, **(environment or {})},
                check=False,
            )
        output, end = done.stdout, "" if done.returncode == 0 else f"ended with {done.returncode}"
    except subprocess.TimeoutExpired as timeout:
        output, end = _text(timeout.stdout), f"took longer than {seconds} s"
    notes: dict[str, float] = {}
    for line in output.splitlines():
        notes.update(_record(json.loads(line), recorder))
    if end:
        recorder.note("broken", **{f"cpp.{case}": f"{end}; the log says: {_last_lines(log)}"})
    if log.exists() and log != Path(os.devnull) and not end:
        log.unlink()
    print(f"  {case}: {end or 'done'}", flush=True)
    return notes


def _text(output: bytes | str | None) -> str:
    """Return the whole lines of what a process printed before it was stopped."""
    text = output.decode() if isinstance(output, bytes) else output or ""
    return text[: text.rfind("\n") + 1]


def _last_lines(log: Path) -> str:
    return "" if log == Path(os.devnull) else " ".join(log.read_text(errors="replace").splitlines()[-3:])


def _record(entry: Mapping[str, Any], recorder: Recorder) -> dict[str, float]:
    if "check" in entry:
        add = recorder.at_least if entry["at_least"] else recorder.check
        add(entry["check"], entry["value"], limit=entry["limit"], unit=entry["unit"])
        return {}
    if "broken" in entry:
        recorder.broken(entry["broken"], entry["reason"])
        return {}
    recorder.note(entry["topic"], **{entry["key"]: entry["value"]})
    return {entry["key"]: entry["value"]}
