"""Reads what the program of benchmarks/call_overhead printed, in one process after the other."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

MODELS = ("resnet18", "encoder")


def read_overhead(folder: Path | None) -> dict[str, dict[str, float]]:
    """Return the values of each model whose measurement is there and whole: medians of all processes."""
    results = {}
    for model in MODELS:
        path = folder / f"{model}.json" if folder else None
        if path is None or not path.exists():
            continue
        runs = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
        if runs:
            results[model] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    return results
