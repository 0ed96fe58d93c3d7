"""Collects what a GPU run measured and writes it as one JSON file.

Every check has the name that the project's plan gives it. A check that was never made is written as failed: a file
with a hole must not look like a good one.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import functools
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EXPECTED = (
    "demo.top5_equal",
    "demo.logits_relerr_fp16",
    "demo.logits_relerr_fp32",
    "resnet18.relerr",
    "encoder.relerr",
    "cos_erfinv_tanh.relerr",
    "three_inputs.equal",
    "four_outputs.equal",
    "int64.equal",
    "bool.equal",
    "zero_dim.equal",
    "empty.equal",
    "dynamic_encoder.relerr",
    "two_methods.equal",
    "cuda_partitioner.delegates",
    "stock_save.runs",
    "compiled_module.same_engines",
    "slots.equal_bindings",
    "cpp_runner.equal",
    "load_rounds.device_memory_flat",
    "load_rounds.rss_flat",
)
"""The checks of the file h200-first-light.json."""

_DISTRIBUTIONS = (
    "torch",
    "executorch",
    "torch-tensorrt-rtx",
    "tensorrt-rtx-cu13-libs",
    "torch-tensorrt-executorch-runtime",
)


class Recorder:
    """Holds checks and free data of one run, and writes them to `path` after each one: a crash loses nothing.

    Several processes may share a run: each writes what it measured into what the others have written.
    """

    def __init__(self, path: Path | None = None, *, expected: Sequence[str] = EXPECTED) -> None:
        self.path = path
        self.expected = tuple(expected)
        self.checks: dict[str, dict[str, Any]] = {}
        self.data: dict[str, Any] = {}

    def check(self, name: str, value: float, *, limit: float, unit: str) -> bool:
        """Record a measured value that must not exceed its limit and say whether it does not.

        Several values under one name (of other types or sizes) keep the one that lies nearest to its limit.
        """
        entry = {"name": name, "value": value, "unit": unit, "limit": limit, "ok": value <= limit}
        self.checks[name] = _worse(self.checks.get(name), entry)
        self.write()
        return bool(entry["ok"])

    def at_least(self, name: str, value: float, *, limit: float, unit: str) -> bool:
        """Record a measured value that must reach its limit and say whether it does; the smallest is kept."""
        entry = {"name": name, "value": value, "unit": f"{unit}, at least", "limit": limit, "ok": value >= limit}
        self.checks[name] = _worse(self.checks.get(name), entry)
        self.write()
        return bool(entry["ok"])

    def equal(self, name: str, value: Any, expected: Any) -> bool:
        """Record that a value, such as a list of names, must equal another."""
        ok = bool(value == expected)
        if ok and not self.checks.get(name, {"ok": True})["ok"]:
            return ok
        self.checks[name] = {"name": name, "value": value, "unit": "", "limit": expected, "ok": ok}
        self.write()
        return ok

    def broken(self, name: str, reason: str) -> None:
        """Record that a check could not be made, which counts as failed, and why."""
        self.checks[name] = {"name": name, "value": None, "unit": "", "limit": None, "ok": False}
        self.note("broken", **{name: reason})

    def note(self, topic: str, **values: Any) -> None:
        """Keep values without a limit under a topic."""
        self.data.setdefault(topic, {}).update(values)
        self.write()

    def missing(self) -> list[str]:
        """Return the expected checks that nobody made."""
        return [name for name in self.expected if name not in self.checks]

    def document(self) -> dict[str, Any]:
        """Return the whole result; checks in the order of the plan, missing ones as failed."""
        absent = {
            name: {"name": name, "value": None, "unit": "", "limit": None, "ok": False} for name in self.missing()
        }
        checks = {**self.checks, **absent}
        order = [*self.expected, *(name for name in self.checks if name not in self.expected)]
        return {**environment(), "checks": [checks[name] for name in order], "data": self.data}

    def write(self) -> None:
        """Write the result so far; an earlier file of that name is replaced whole."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._take_over()
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.document(), indent=1) + "\n")
            part.replace(self.path)

    def _take_over(self) -> None:
        """Add what other processes of this run have written."""
        if self.path is None or not self.path.exists():
            return
        written = json.loads(self.path.read_text())
        for entry in written["checks"]:
            if entry["value"] is not None:
                self.checks[entry["name"]] = _worse(self.checks.get(entry["name"]), entry)
        for topic, values in written["data"].items():
            self.data[topic] = {**values, **self.data.get(topic, {})}


def _worse(known: dict[str, Any] | None, entry: dict[str, Any]) -> dict[str, Any]:
    """Return of two entries of one check the one that says less good of it."""
    if known is None:
        return entry
    if known["value"] is None:
        return known
    if str(entry["unit"]).endswith("at least"):
        return known if entry["value"] >= known["value"] else entry
    if known["ok"] != entry["ok"] or not isinstance(entry["limit"], int | float):
        return entry if known["ok"] else known
    return entry if _share(entry) > _share(known) else known


def _share(entry: Mapping[str, Any]) -> float:
    """Return how much of its limit a value takes; beyond every number when a limit of zero is missed."""
    if entry["limit"]:
        return float(entry["value"]) / float(entry["limit"])
    return float("inf") if entry["value"] else 0.0


def summary(path: Path) -> bool:
    """Print the checks of a result file as people read them and say whether all are good."""
    if not path.exists():
        print(f"FAILED: {path} was not written, because no GPU test ran to its end.")
        return False
    document = json.loads(path.read_text())
    for check in document["checks"]:
        verdict = "ok    " if check["ok"] else "FAILED"
        value = "not measured" if check["value"] is None else f"{check['value']} {check['unit']}"
        print(f"{verdict} {check['name']}: {value} (limit {check['limit']})")
    bad = sum(not check["ok"] for check in document["checks"])
    print(f"{document['gpu']}, driver {document['driver']}: {len(document['checks']) - bad} checks good, {bad} bad")
    return bad == 0


@functools.cache
def environment() -> dict[str, Any]:
    """Say where and with what the run took place."""
    versions = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    gpu, driver = _gpu()
    return {
        "gpu": gpu,
        "driver": driver,
        "versions": versions,
        "commit": _commit(),
        "command": os.environ.get("TTER_COMMAND", " ".join(sys.argv)),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def _gpu() -> tuple[str | None, str | None]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None, None
    name, driver = lines[0].split(", ")
    return name, driver


def _commit() -> str | None:
    """Return the commit under test: of TTER_COMMIT where the sources are a plain copy, else of the checkout."""
    if "TTER_COMMIT" in os.environ:
        return os.environ["TTER_COMMIT"]
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(0 if summary(Path(sys.argv[1])) else 1)
