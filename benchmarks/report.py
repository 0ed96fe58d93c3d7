"""Turns ``h200-fast-and-lean.json`` into a Markdown report with pictures: ``python benchmarks/report.py JSON MD``.

The pictures are SVG files beside the report, one bar for each way to run a model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

NAMES = {
    "ours": "TensorRT delegate, replay",
    "ours_outputs_not_cloned": "TensorRT delegate, replay, outputs not cloned",
    "ours_plain": "TensorRT delegate, plain",
    "torch_tensorrt": "Torch-TensorRT",
    "torch_tensorrt_graphs": "Torch-TensorRT, CUDA graphs",
    "onnxruntime": "ONNX Runtime, TensorRT-RTX",
    "onnxruntime_graphs": "ONNX Runtime, TensorRT-RTX, CUDA graph",
    "torch_compile": "torch.compile, reduce-overhead",
    "eager_graph": "PyTorch eager in a CUDA graph",
    "eager": "PyTorch eager",
}
BAR, GAP, LABEL, WIDTH = 20, 8, 330, 860


def by_model(times: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Group ``<model>.<way>`` values by model; the ways come in the order of `NAMES`."""
    models: dict[str, dict[str, float]] = {}
    for key, value in times.items():
        model, _, way = key.rpartition(".")
        models.setdefault(model, {})[way] = value
    return {model: {way: ways[way] for way in NAMES if way in ways} for model, ways in models.items()}


def picture(title: str, times: Mapping[str, float]) -> str:
    """Draw one horizontal bar per way to run a model, in microseconds."""
    longest = max(times.values())
    height = 40 + len(times) * (BAR + GAP)
    rows = []
    for row, (way, time) in enumerate(times.items()):
        y = 34 + row * (BAR + GAP)
        length = max(1.0, (WIDTH - LABEL - 90) * time / longest)
        color = "#76b900" if way.startswith("ours") else "#8a8f98"
        rows.append(
            f'<text x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(NAMES[way])}</text>'
            f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{color}"/>'
            f'<text x="{LABEL + length + 6:.1f}" y="{y + 15}">{time:.0f} µs</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>{"".join(rows)}</svg>\n'
    )


def number(value: Any) -> str:
    """Write a value as people read it."""
    if value is None:
        return "not measured"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def check_table(checks: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of checks."""
    lines = ["| check | value | limit | unit | |", "|---|---|---|---|---|"]
    for check in checks:
        verdict = "good" if check["ok"] else "**missed**"
        lines.append(
            f"| `{check['name']}` | {number(check['value'])} | {number(check['limit'])} | {check['unit']} | {verdict} |"
        )
    return lines


def time_table(times: Mapping[str, float]) -> list[str]:
    """Return the lines of the table of times, each also as a multiple of the delegate's."""
    own = times.get("ours")
    lines = ["| | µs per call | times ours |", "|---|---|---|"]
    for way, time in times.items():
        ratio = f"{time / own:.2f}" if own else ""
        lines.append(f"| {NAMES[way]} | {time:.1f} | {ratio} |")
    return lines


def report(document: Mapping[str, Any], folder: Path, stem: str) -> str:
    """Return the report in Markdown and write its pictures to a folder."""
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    lines = [
        "# Fast and lean",
        "",
        f"{document['gpu']}, driver {document['driver']}, {document['date']}, commit {document['commit']}. {versions}.",
        "",
        "Median time of a call followed by a wait, tensors on the GPU, Python callers; all ways took turns in one run.",
        "",
        *check_table(document["checks"]),
    ]
    for model, times in by_model(document["data"].get("microseconds", {})).items():
        name = f"{stem}-{model}.svg"
        (folder / name).write_text(picture(f"{model}: time per call", times))
        lines += ["", f"## {model}", "", f"![time per call of {model}]({name})", "", *time_table(times)]
    left_out = document["data"].get("left_out", {})
    if left_out:
        lines += ["", "## Left out", ""]
        lines += [f"- `{name}`: {' '.join(reason.split())[:300]}" for name, reason in left_out.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the result file and write the report."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    document = json.loads(source.read_text())
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(report(document, target.parent, target.stem))
    print(f"{target} was written.")


if __name__ == "__main__":
    main()
