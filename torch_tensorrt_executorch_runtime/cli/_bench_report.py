"""What ``trt-executorch bench`` shows to people."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from torch_tensorrt_executorch_runtime.cli import _output

__all__ = ["show"]

_CONTENDERS = {
    "delegate": "delegate, called from Python",
    "delegate_uncloned": "delegate, outputs not cloned",
    "bare_enqueue": "bare engines, enqueued",
    "bare_graph": "bare engines, CUDA graphs",
}
_PRODUCTS = {"rtx": "TensorRT-RTX", "tensorrt": "TensorRT", "unknown": "TensorRT"}


def show(result: dict[str, Any]) -> None:
    """Print a result."""
    console = _output.console()
    _show_setting(result, console)
    _show_latency(result, console)
    _show_ratio(result, console)
    if result["engines"]:
        _show_engines(result, console)
        _show_memory(result, console)
    for note in result["notes"]:
        console.print(f"note: {note}")


def _show_setting(result: dict[str, Any], console: Console) -> None:
    versions, engines = result["versions"], result["program"]["engines"]
    count = f"{len(engines)} engine{'' if len(engines) == 1 else 's'}"
    size = _output.describe_size(sum(engine["size_bytes"] for engine in engines))
    console.print(
        f"{result['file']}: {_output.describe_size(result['program']['size_bytes'])}, method {result['method']}, "
        f"{count}{f' of {size}' if engines else ''}"
    )
    for gpu in result["gpus"]:
        console.print(
            f"GPU {gpu['index']}: {gpu['name']}, compute capability {gpu['compute_capability']}, "
            f"driver for CUDA {versions['cuda_driver']}"
        )
    if versions["tensorrt"]:
        product = _PRODUCTS[engines[0]["flavor"]]
        console.print(f"{product} {versions['tensorrt']}, {versions['tensorrt_library']}")
    console.print(
        f"torch-tensorrt-executorch-runtime {versions['torch_tensorrt_executorch_runtime']}, "
        f"ExecuTorch {versions['executorch']}, torch {versions['torch']}, Python {versions['python']}"
    )
    load = result["load"]
    kernels = f" (kernels: {load['kernels']})" if load["kernels"] else ""
    console.print(f"loaded in {load['load_us'] / 1e3:.1f} ms{kernels}, first call {load['first_call_us'] / 1e3:.2f} ms")
    console.print()


def _show_latency(result: dict[str, Any], console: Console) -> None:
    columns = ("min", "p50", "p90", "p99", "max", "mean", "std")
    rows = _output.table("µs per call and wait", "calls", *columns, "calls per second, back to back")
    for name, latency in result["latency_us"].items():
        numbers = (f"{latency[column]:.1f}" for column in columns)
        rate = f"{result['calls_per_second'][name]:.0f}"
        rows.add_row(_CONTENDERS[name], str(latency["calls"]), *numbers, rate)
    console.print(rows)


def _show_ratio(result: dict[str, Any], console: Console) -> None:
    ratio = result["ratio"]
    if ratio is not None:
        console.print(
            f"{_CONTENDERS[ratio['of']]}: {ratio['like_with_like']:.2f} times the p50 of "
            f"{_CONTENDERS[ratio['compared_with']]}, measured in turns in this run"
        )
    console.print()


def _show_engines(result: dict[str, Any], console: Console) -> None:
    rows = _output.table(
        "engine", "calls", "plain", "replayed", "captures", "staged in", "staged out", "copied", "host waits"
    )
    for number, engine in enumerate(result["engines"]):
        rows.add_row(
            f"{number}",
            str(engine["calls"]),
            str(engine["plain_calls"]),
            str(engine["replayed_calls"]),
            str(engine["captures"]),
            str(engine["staged_inputs"]),
            str(engine["staged_outputs"]),
            _output.describe_size(engine["copied_bytes"]),
            str(engine["host_waits"]),
        )
    console.print(rows)
    for number, engine in enumerate(result["engines"]):
        for reason, count in engine["fallbacks"].items():
            console.print(f"engine {number} was not replayed in {count} calls: {reason}")
    console.print(f"({result['method_calls']} calls of the method in all, those that do not count included)")
    console.print()


def _show_memory(result: dict[str, Any], console: Console) -> None:
    parts = [f"{kind.replace('_', ' ')} {_output.describe_size(size)}" for kind, size in result["memory_bytes"].items()]
    planned = [
        f"planned by ExecuTorch on {item['device']} {_output.describe_size(item['size_bytes'])}"
        for item in result["program"]["planned_memory"]
        if not item["device"].startswith("cpu")
    ]
    console.print(f"GPU memory of the program: {', '.join([*parts, *planned])}")
