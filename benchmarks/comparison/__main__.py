"""Compares the delegate with other ways to run the same models, and measures what it holds and how fast it loads.

``python -m comparison --programs FOLDER --gpu-cases PROGRAM --call-overhead FOLDER --output FILE``

Writes the result file after each step, so that a run that is cut short leaves what it had measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from gpu.every_tensor import cpp_cases
from gpu.every_tensor.overhead import MODELS as JUDGED
from gpu.every_tensor.overhead import read_overhead
from gpu.results import Recorder, summary

from .contenders import Model
from .timing import Contender, take_turns
from .workers import Worker

# The judged models come first: what is left out when time runs short is the others.
MODELS = ("encoder", "resnet18", "encoder_1_16", "encoder_8_256", "efficientnet_lite0", "encoder_12_layers", "chain")
WORKERS = ("torch_compile", "onnxruntime", "onnxruntime_graphs")
RIVALS = {
    "torch_tensorrt": ("torch_tensorrt", "torch_tensorrt_graphs"),
    "onnxruntime": ("onnxruntime", "onnxruntime_graphs"),
    "torch_compile": ("torch_compile",),
}
# Who is compared with what: ONNX Runtime leaves its results in the buffers that were bound, as the delegate does before
# ExecuTorch's Python clones them; the others give results of their own.
OURS = {"torch_tensorrt": "ours", "onnxruntime": "ours_outputs_not_cloned", "torch_compile": "ours"}
LIMITS = {
    "torch_tensorrt_vs_ours.resnet18": 2.0,
    "torch_tensorrt_vs_ours.encoder": 2.0,
    "onnxruntime_vs_ours.resnet18": 1.3,
    "onnxruntime_vs_ours.encoder": 1.7,
    "torch_compile_vs_ours.resnet18": 1.0,
    "torch_compile_vs_ours.encoder": 1.0,
}
CPP_CASES = ("sharing", "chain", "replays", "green_context", "million")
EXPECTED = (
    "replay_vs_bare_launch.resnet18",
    "replay_vs_bare_launch.encoder",
    "call_vs_bare_enqueue.resnet18",
    "call_vs_bare_enqueue.encoder",
    *LIMITS,
    "second_load.extra_weight_share",
    "scratch_32_engines.ratio",
    "scratch_with_replay.right",
    "load.cold_over_warm",
    "replay_million.right",
    "replay_million.memory_flat",
    "green_replay.confined_right",
)
"""The checks of the file h200-fast-and-lean.json."""

LOAD_ROUNDS = 3
OVERHEAD_LIMITS = {
    ("replay_vs_bare_launch", "resnet18"): 1.05,
    ("replay_vs_bare_launch", "encoder"): 1.05,
    ("call_vs_bare_enqueue", "resnet18"): 1.03,
    ("call_vs_bare_enqueue", "encoder"): 1.06,
}


def overhead(folder: Path | None, recorder: Recorder) -> None:
    """Take over the calls against the bare engine that benchmarks/call_overhead measured."""
    for model, values in read_overhead(folder).items():
        for (ratio, of), limit in OVERHEAD_LIMITS.items():
            if of == model:
                recorder.check(
                    f"{ratio}.{model}", values[f"ratio.{ratio}"], limit=limit, unit="times the bare engine and a wait"
                )
        recorder.note("call_overhead", **{f"{model}.{key}": value for key, value in values.items()})


def load_times(gpu_cases: Path, programs: Path, recorder: Recorder) -> None:
    """Load programs with an empty folder for kernels, then again in later processes; medians of three rounds."""
    for model in JUDGED:
        seconds: dict[str, list[float]] = {"cold": [], "warm": []}
        for _ in range(LOAD_ROUNDS):
            with tempfile.TemporaryDirectory() as cache:
                environment = {"TENSORRT_EXECUTORCH_CACHE": cache, "GPU_CASES_LOAD": f"{model}.device"}
                for state in ("cold", "warm", "warm"):
                    notes = cpp_cases.run(gpu_cases, "load_time", programs, recorder, environment=environment)
                    if f"{model}.device" in notes:
                        seconds[state].append(notes[f"{model}.device"])
        if seconds["cold"] and seconds["warm"]:
            cold, warm = (statistics.median(seconds[state]) for state in ("cold", "warm"))
            recorder.note("load", **{f"{model}.{state}_s": seconds[state] for state in seconds})
            recorder.at_least("load.cold_over_warm", cold / warm, limit=20, unit="times the warm load")


@contextmanager
def workers(programs: Path, log: TextIO) -> Iterator[dict[tuple[str, str], list[Worker]]]:
    """Start every worker; where there are two for one thing, the first that gets ready is used."""
    started: dict[tuple[str, str], list[Worker]] = {}
    with ExitStack() as stack:
        for model in JUDGED:
            for kind in WORKERS:
                both = (True, False) if kind == "torch_compile" else (True,)
                group = [Worker(kind, model, programs, log, own_torch=own) for own in both]
                for worker in group:
                    stack.callback(worker.stop)
                started[model, kind] = group
        yield started


def contenders(model: Model, recorder: Recorder) -> list[Contender]:
    """Return the ways to run a model in this process; one that fails is left out, with the reason in the data."""
    made = []
    for name, make in model.makers():
        try:
            made.append(make())
        except Exception as error:
            traceback.print_exc()
            recorder.note("left_out", **{f"{model.name}.{name}": f"{type(error).__name__}: {error}"[:500]})
    return made


def ready_workers(groups: Mapping[str, list[Worker]], model: str, until: float, recorder: Recorder) -> list[Contender]:
    """Return the workers of a model that are ready in time."""
    made = []
    for kind, group in groups.items():
        reasons = []
        for worker in group:
            try:
                recorder.note("workers", **{f"{model}.{kind}": worker.ready(until)})
            except (RuntimeError, OSError) as error:
                reasons.append(str(error))
                continue
            made.append(worker.contender())
            break
        else:
            recorder.note("left_out", **{f"{model}.{kind}": "; ".join(reasons)[:800]})
    return made


def compare(name: str, programs: Path, others: Callable[[], list[Contender]], recorder: Recorder) -> None:
    """Time all ways to run one model in turns and record times and ratios to the delegate's."""
    everyone = [*contenders(Model(name, programs), recorder), *others()]
    for failed, reason in take_turns(everyone).items():
        recorder.note("left_out", **{f"{name}.{failed}": reason[:500]})
    medians = {contender.name: contender.median for contender in everyone if contender.times}
    recorder.note("microseconds", **{f"{name}.{key}": value for key, value in medians.items()})
    if "ours" not in medians:
        return
    recorder.note("times_ours", **{f"{name}.{key}": value / medians["ours"] for key, value in medians.items()})
    for rival, ways in RIVALS.items():
        fastest = min((medians[way] for way in ways if way in medians), default=None)
        limit, ours = LIMITS.get(f"{rival}_vs_ours.{name}"), medians.get(OURS[rival])
        if fastest is not None and limit is not None and ours is not None:
            recorder.at_least(f"{rival}_vs_ours.{name}", fastest / ours, limit=limit, unit=f"times {OURS[rival]}")


def comparisons(programs: Path, recorder: Recorder, log: TextIO, until: float) -> None:
    """Compare model after model until the time is up."""
    with workers(programs, log) as started:
        for name in MODELS:
            if time.monotonic() > until:
                recorder.note("left_out", **{name: "the time was up"})
                continue
            groups = {kind: group for (model, kind), group in started.items() if model == name}
            try:
                compare(name, programs, lambda g=groups, n=name: ready_workers(g, n, until, recorder), recorder)
            except Exception as error:
                traceback.print_exc()
                recorder.note("left_out", **{name: f"{type(error).__name__}: {error}"[:500]})
            print(f"  {name}: done", flush=True)


def main() -> int:
    """Measure everything and return 0 when all checks are good."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--gpu-cases", type=Path, required=True)
    parser.add_argument("--call-overhead", type=Path, help="folder with <model>.json of benchmarks/call_overhead")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=150, help="time for the comparisons")
    arguments = parser.parse_args()
    arguments.output.unlink(missing_ok=True)
    recorder = Recorder(arguments.output, expected=EXPECTED)
    recorder.write()
    overhead(arguments.call_overhead, recorder)
    for case in CPP_CASES:
        cpp_cases.run(arguments.gpu_cases, case, arguments.programs, recorder, seconds=60)
    load_times(arguments.gpu_cases, arguments.programs, recorder)
    with arguments.output.with_suffix(".workers.log").open("w") as log:
        comparisons(arguments.programs, recorder, log, time.monotonic() + arguments.seconds)
    return 0 if summary(arguments.output) else 1


if __name__ == "__main__":
    raise SystemExit(main())
