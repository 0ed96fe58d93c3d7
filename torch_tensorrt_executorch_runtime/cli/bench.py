"""``trt-executorch bench``: how fast a method is on this machine, and what the delegate adds to its engines."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._errors import DelegateError
from torch_tensorrt_executorch_runtime._files import check_path, write_text
from torch_tensorrt_executorch_runtime._options import set_option
from torch_tensorrt_executorch_runtime._stats import EngineStats, stats
from torch_tensorrt_executorch_runtime._streams import caller_stream
from torch_tensorrt_executorch_runtime.cli import _output
from torch_tensorrt_executorch_runtime.cli._bench_facts import (
    kept_kernels,
    machine_facts,
    notes_on,
    origin_of_kernels,
    program_facts,
)
from torch_tensorrt_executorch_runtime.cli._bench_report import show
from torch_tensorrt_executorch_runtime.cli._histogram import histogram
from torch_tensorrt_executorch_runtime.cli._inputs import make_inputs
from torch_tensorrt_executorch_runtime.cli._measure import (
    Caller,
    Contender,
    calls_per_second,
    summarize,
    take_turns,
)
from torch_tensorrt_executorch_runtime.cli._methods import find_method, load_method
from torch_tensorrt_executorch_runtime.inspect import MethodInfo, inspect_program

__all__ = ["bench"]

_STDOUT = Path("-")
_SWITCHES = {"use_cuda_graphs": "--cuda-graphs", "use_shared_activation_scratch": "--shared-scratch"}


def bench(
    file: Annotated[Path, typer.Argument(help="A .pte file.", show_default=False)],
    *,
    method: Annotated[str, typer.Option(help="The method to call.")] = "forward",
    calls: Annotated[int, typer.Option(help="Calls to time.", min=1)] = 500,
    warm_up: Annotated[int, typer.Option(help="Calls before them that do not count.", min=0)] = 20,
    input_files: Annotated[
        list[Path] | None,
        typer.Option("--input", help="A .npy or .pt file for the next input. Default: random values."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The .ptd file that belongs to the program.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random values.")] = 0,
    cuda_graphs: Annotated[
        bool | None,
        typer.Option("--cuda-graphs/--no-cuda-graphs", help="Replay engines as CUDA graphs. Default: as exported."),
    ] = None,
    shared_scratch: Annotated[
        bool, typer.Option("--shared-scratch", help="Let the engines take turns in one block of scratch memory.")
    ] = False,
    bare: Annotated[bool, typer.Option("--bare/--no-bare", help="Compare with the engines by themselves.")] = True,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the result as JSON to this file; - prints it instead.")
    ] = None,
    histogram_file: Annotated[
        Path | None, typer.Option("--histogram", help="Write the latencies as a histogram to this SVG file.")
    ] = None,
) -> None:
    """Measure latency and throughput of a method, and compare it with its bare engines in the same run."""
    for output in (None if json_file == _STDOUT else json_file, histogram_file):
        if output is not None:
            check_path(output)
    described = find_method(inspect_program(file), method)
    inputs = make_inputs(described, input_files or [], seed=seed)
    wanted = {"use_cuda_graphs": cuda_graphs, "use_shared_activation_scratch": True if shared_scratch else None}
    for name, value in wanted.items():
        if value is not None:
            set_option(name, value)
    loaded, load = _load(file, described, data)
    with _place(file, described, inputs) as (placed, wait):
        measured, times = _measure(_callers(loaded, described, placed, wait), calls, warm_up, bare=bare)
    result = {
        "file": str(file),
        "method": method,
        "options": {
            "calls": calls,
            "warm_up": warm_up,
            "seed": seed,
            "inputs": [str(path) for path in input_files or []],
            **wanted,
        },
        **machine_facts(described, measured["engines"]),
        "program": program_facts(file, described),
        "load": {**load, "first_call_us": measured.pop("first_call_us")},
        **measured,
    }
    switched_on = {_SWITCHES[name]: name for name, value in wanted.items() if value}
    result["notes"] = [*notes_on(described, switched_on), *result["notes"]]
    _write(result, times, json_file, histogram_file)


def _load(file: Path, method: MethodInfo, data: Path | None) -> tuple[Any, dict[str, Any]]:
    """Load the method and say how long that took, without the import of ExecuTorch and torch."""
    _loader.native()
    from executorch.runtime import Runtime  # noqa: PLC0415 - imports torch

    Runtime.get()
    before = kept_kernels(method)
    start = time.perf_counter_ns()
    loaded = load_method(file, method.name, data)
    microseconds = (time.perf_counter_ns() - start) / 1e3
    return loaded, {"load_us": microseconds, "kernels": origin_of_kernels(method, before, kept_kernels(method))}


@contextlib.contextmanager
def _place(file: Path, method: MethodInfo, inputs: list[Any]) -> Iterator[tuple[list[Any], Any]]:
    """Put the inputs where the program expects them; yield them with what waits for a call (None: calls wait)."""
    values = (*method.inputs, *method.outputs)
    devices = {value.device for value in values if value.device != "cpu"}
    if not devices:
        yield inputs, None
        return
    import torch  # noqa: PLC0415

    if not torch.cuda.is_available():
        raise DelegateError(
            f"{file} takes or returns tensors on {', '.join(sorted(devices))}, but torch {torch.__version__} finds no "
            "GPU here. Install a torch with CUDA, and look at `trt-executorch doctor`."
        )
    device = torch.device(min(devices))
    stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream), caller_stream(stream):
        placed = [tensor.to(value.device) for tensor, value in zip(inputs, method.inputs, strict=True)]
        torch.cuda.synchronize(device)
        yield placed, stream.synchronize


def _callers(loaded: Any, method: MethodInfo, inputs: list[Any], wait: Any) -> dict[str, Caller]:
    """Return the ways to call the method: as everybody does, and without the clones of outputs on the GPU."""
    callers = {"delegate": Caller(loaded.execute, inputs, wait)}
    if any(value.device != "cpu" for value in method.outputs):
        without_clones = functools.partial(loaded.execute, clone_outputs=False)
        callers["delegate_uncloned"] = Caller(without_clones, inputs, wait)
    return callers


def _measure(
    callers: Mapping[str, Caller], calls: int, warm_up: int, *, bare: bool
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Call the method and its bare engines in turns; return what came out and all latencies."""
    notes: list[str] = []
    (first,) = callers["delegate"].latencies(1)
    each = [engine.calls for engine in stats()]  # of one call of the method
    contenders: dict[str, Contender] = {**callers}
    if bare and sum(each) > 0:
        contenders |= _bare_contenders(each, notes)
    for contender in contenders.values():
        contender.latencies(warm_up)
    times = take_turns(contenders, calls)
    rates = calls_per_second(contenders, calls)
    latency = {name: summarize(values) for name, values in times.items()}
    engines = stats()
    return {
        "first_call_us": first,
        "latency_us": latency,
        "calls_per_second": rates,
        "ratio": _ratio(latency, engines),
        "method_calls": sum(caller.calls for caller in callers.values()),
        "engines": [
            {**dataclasses.asdict(engine), "calls_per_method_call": count}
            for engine, count in zip(engines, each, strict=True)
        ],
        "memory_bytes": _memory(engines),
        "notes": notes,
    }, times


class _Bare:
    """The engines without the delegate, one of their two ways to be launched."""

    def __init__(self, engines: Any, *, graphs: bool) -> None:
        self._engines = engines
        self._graphs = graphs

    def latencies(self, calls: int) -> list[float]:
        """Return the microseconds of each run of all engines, a wait included."""
        times: list[float] = self._engines.latencies(calls, graphs=self._graphs)
        return times

    def total(self, calls: int) -> float:
        """Return the microseconds of all runs together, with one wait behind them."""
        microseconds: float = self._engines.total(calls, graphs=self._graphs)
        return microseconds


def _bare_contenders(each: list[int], notes: list[str]) -> dict[str, Contender]:
    numbers = [number for number, count in enumerate(each) for _ in range(count)]
    try:
        engines = _loader.native().BareEngines(numbers)
    except RuntimeError as error:
        notes.append(f"The bare engines could not be run: {error}.")
        return {}
    contenders: dict[str, Contender] = {"bare_enqueue": _Bare(engines, graphs=False)}
    if engines.no_graphs_because:
        notes.append(f"The bare engines could not be captured as CUDA graphs: {engines.no_graphs_because}.")
    else:
        contenders["bare_graph"] = _Bare(engines, graphs=True)
    return contenders


def _ratio(latency: Mapping[str, Mapping[str, float]], engines: list[EngineStats]) -> dict[str, Any] | None:
    """Return how many times the bare engines' median latency the delegate's is; None without bare engines.

    Bare engines clone no outputs, so of the delegate's calls those without clones are compared where there are such.
    """
    of = "delegate_uncloned" if "delegate_uncloned" in latency else "delegate"
    ratios = {name: latency[of]["p50"] / item["p50"] for name, item in latency.items() if name.startswith("bare_")}
    if not ratios:
        return None
    replayed = all(2 * engine.replayed_calls > engine.calls for engine in engines if engine.calls)
    like = "bare_graph" if replayed and "bare_graph" in ratios else "bare_enqueue"
    return {**ratios, "like_with_like": ratios[like], "of": of, "compared_with": like}


def _memory(engines: list[EngineStats]) -> dict[str, int]:
    """Return the device memory of all engines by kind."""
    _, shared = _loader.native().get_option("stats.device.shared_scratch")
    kinds = ("weights", "scratch", "staging", "graphs")
    names = {"graphs": "graph_bytes"}
    sums = {kind: sum(getattr(engine, names.get(kind, f"{kind}_bytes")) for engine in engines) for kind in kinds}
    return {**sums, "shared_scratch": int(shared)}


def _write(
    result: dict[str, Any], times: dict[str, list[float]], json_file: Path | None, histogram_file: Path | None
) -> None:
    if json_file == _STDOUT:
        _output.print_json(result)
    else:
        show(result)
    if json_file is not None and json_file != _STDOUT:
        write_text(json_file, json.dumps(result, indent=2) + "\n")
    if histogram_file is not None:
        title = f"{Path(result['file']).name}, {result['method']}: latency"
        write_text(histogram_file, histogram(title, {name.replace("_", " "): item for name, item in times.items()}))
