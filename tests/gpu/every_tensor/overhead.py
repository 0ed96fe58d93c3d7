"""Reads what the program of benchmarks/call_overhead printed."""

from __future__ import annotations

import json
from pathlib import Path

MODELS = ("resnet18", "encoder")


def read_overhead(folder: Path | None) -> dict[str, dict[str, float]]:
    """Return the values of each model whose measurement is there and whole."""
    results = {}
    for model in MODELS:
        path = folder / f"{model}.json" if folder else None
        if path is None or not path.exists():
            continue
        lines = [line for line in path.read_text().splitlines() if line.startswith("{")]
        if lines:
            results[model] = json.loads(lines[-1])
    return results
