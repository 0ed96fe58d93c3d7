"""``trt-executorch bench``: its parts, and the whole command on the fakes, where times mean nothing and counts all."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from support.fakes import PROGRAMS, RTX, needs_fakes, on_fakes
from support.process import Result, command, run_code
from torch_tensorrt_executorch_runtime import DelegateError, _loader
from torch_tensorrt_executorch_runtime._files import write_text
from torch_tensorrt_executorch_runtime.cli import _bench_facts, bench
from torch_tensorrt_executorch_runtime.cli._bench_facts import notes_on
from torch_tensorrt_executorch_runtime.cli._histogram import histogram
from torch_tensorrt_executorch_runtime.cli._inputs import make_inputs
from torch_tensorrt_executorch_runtime.cli._measure import Caller, calls_per_second, summarize, take_turns
from torch_tensorrt_executorch_runtime.inspect import (
    DelegateInfo,
    EngineInfo,
    KernelInfo,
    MethodInfo,
    OperatorInfo,
    ValueInfo,
)

FAKES_SOURCE = Path(__file__).parents[2] / "fakes"

ENGINE = EngineInfo(
    "rtx", None, 1, "0" * 64, sha256_recorded=False, layers=None, build_seconds=None, compute_capabilities=None,
    hardware_compatible=False, device_id=0, target_platform="", bindings=(), aliases=(),
)  # fmt: skip


class Clockwork:
    """A contender whose every call takes as long as its number says."""

    def __init__(self, name: str, log: list[tuple[str, int]]) -> None:
        self.name = name
        self.log = log
        self.calls = 0

    def latencies(self, calls: int) -> list[float]:
        self.log.append((self.name, calls))
        self.calls += calls
        return [float(self.calls)] * calls

    def total(self, calls: int) -> float:
        self.log.append((self.name, calls))
        return 10.0 * calls


def test_contenders_take_turns_in_short_blocks_that_settle_first() -> None:
    log: list[tuple[str, int]] = []
    times = take_turns({"a": Clockwork("a", log), "b": Clockwork("b", log)}, 60)
    assert {name: len(values) for name, values in times.items()} == {"a": 60, "b": 60}
    order = [item for size in (25, 25, 10) for name in "ab" for item in ((name, 3), (name, size))]
    assert log == order


def test_calls_per_second_are_those_of_calls_in_a_row() -> None:
    log: list[tuple[str, int]] = []
    rates = calls_per_second({"a": Clockwork("a", log)}, 10)
    assert log == [("a", 4)] * 3
    assert rates == {"a": pytest.approx(1e5)}


def test_percentiles_are_measured_values() -> None:
    summary = summarize([float(value) for value in range(100, 0, -1)])
    assert summary == {
        "calls": 100, "min": 1, "p50": 50, "p90": 90, "p99": 99, "max": 100, "mean": 50.5,
        "std": pytest.approx(math.sqrt((100**2 - 1) / 12)),
    }  # fmt: skip
    assert set(summarize([7.0]).values()) == {1, 7.0, 0.0}


def test_a_wait_follows_every_call_and_the_last_of_a_row() -> None:
    log: list[str] = []

    caller = Caller(lambda inputs: log.append(f"call {inputs}"), [1], lambda: log.append("wait"))
    assert len(caller.latencies(2)) == 2
    assert caller.total(2) > 0
    assert log == ["call [1]", "wait"] * 2 + ["call [1]"] * 2 + ["wait"]
    assert caller.calls == 4


def test_a_call_that_fails_is_a_sentence() -> None:
    def execute(_: Sequence[Any]) -> None:
        raise RuntimeError("method->execute() failed with error 0x12\nand a trace")

    with pytest.raises(DelegateError, match=r"^The call failed: .* error 0x12\. The log above has the cause\.$"):
        Caller(execute, [], None).latencies(1)


@pytest.mark.parametrize("values", [[5.0], [5.0] * 40, [1.0, 2.0, 1e6], [float(value) for value in range(1, 501)]])
def test_the_histogram_is_xml_with_an_outline_and_a_median_for_each_series(values: list[float]) -> None:
    picture = histogram("<model> & more", {"delegate": values, "bare <graph>": values[:1]})
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    texts = [item.text for item in root.iter(f"{space}text")]
    assert "<model> & more" in texts
    assert any(text and text.startswith("bare <graph>: median") for text in texts)
    assert len(list(root.iter(f"{space}polygon"))) == 2
    numbers = re.findall(r"[\d.]+,([\d.]+)", picture)
    assert all(92 <= float(y) <= 412 for y in numbers)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    assert path.read_text() == "before"
    write_text(path, "after")
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def method_with(value: ValueInfo, **more: Any) -> MethodInfo:
    fields = {"outputs": (), "delegates": (), "operators": (), "outside": (), "memory": ()} | more
    return MethodInfo("forward", (value,), **fields)


def test_an_input_may_be_a_tensor_of_torch(tmp_path: Path) -> None:
    import torch

    method = method_with(ValueInfo("tensor", "bfloat16", (2, 3), dynamic=False))
    given = torch.arange(6).reshape(2, 3).to(torch.bfloat16)
    torch.save(given, tmp_path / "x.pt")
    (made,) = make_inputs(method, [tmp_path / "x.pt"], seed=0)
    assert torch.equal(made, given)


REFUSED_TENSORS = {
    "dict.pt": r"dict.pt holds a dict, but one tensor is expected\. Save it alone\.",
    "text.pt": r"text.pt cannot be read as a file of torch\.save: ",
    "float.pt": r"float.pt holds float32, but input 0 takes bfloat16\.",
    "long.pt": r"long.pt has the shape \[3, 3\], but input 0 takes \[2, 3\]\.",
    "none.pt": r"The input file .*none.pt does not exist\.",
}


@pytest.mark.parametrize("name", REFUSED_TENSORS)
def test_a_file_of_torch_that_does_not_fit_is_refused(tmp_path: Path, name: str) -> None:
    import torch

    torch.save({"x": torch.zeros(2, 3)}, tmp_path / "dict.pt")
    torch.save(torch.zeros(2, 3), tmp_path / "float.pt")
    torch.save(torch.zeros(3, 3, dtype=torch.bfloat16), tmp_path / "long.pt")
    (tmp_path / "text.pt").write_text("hello")
    method = method_with(ValueInfo("tensor", "bfloat16", (2, 3), dynamic=False))
    with pytest.raises(DelegateError, match=REFUSED_TENSORS[name]):
        make_inputs(method, [tmp_path / name], seed=0)


def test_the_notes_say_what_else_is_in_the_times() -> None:
    no_scratch = {"use_shared_activation_scratch": "0"}
    delegates = (
        DelegateInfo("TensorRTBackend", 1, 1, {**no_scratch, "use_cuda_graphs": "0"}, ENGINE),
        DelegateInfo("TensorRTBackend", 1, 1, {**no_scratch, "use_cuda_graphs": "1"}, ENGINE),
    )
    operators = (OperatorInfo("et_copy::_h2d_copy.out", 2), OperatorInfo("aten::sin.out", 1))
    value = ValueInfo("tensor", "float32", (1,), dynamic=False)
    wanted = {"--cuda-graphs": "use_cuda_graphs", "--shared-scratch": "use_shared_activation_scratch"}
    output = ValueInfo("tensor", "float32", (1,), dynamic=False, device="cuda:0")
    notes = notes_on(method_with(value, outputs=(output,), delegates=delegates, operators=operators), wanted)
    assert any(note.startswith("--cuda-graphs has no effect on 1 of 2 engines, which were exported") for note in notes)
    assert any(note.startswith("--shared-scratch has no effect on 2 of 2 engines") for note in notes)
    assert any("clones outputs on the GPU" in note for note in notes)
    assert any("hold 2 copies between host and device" in note for note in notes)
    assert any("operators outside of the engines as well: aten::sin.out." in note for note in notes)
    assert notes_on(method_with(value, delegates=delegates[1:]), {"--cuda-graphs": "use_cuda_graphs"}) == []
    assert notes_on(method_with(value), {}) == [
        "The method has no TensorRT engine, so there is nothing to compare with."
    ]


class FakeNative:
    """``_native`` on a machine on which the bare engines cannot be run, or not be captured."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails
        self.no_graphs_because = "out of memory"

    def BareEngines(self, numbers: list[int]) -> FakeNative:
        assert numbers == [0, 0, 2]
        if self._fails:
            raise RuntimeError("ExecuTorch error 0x21; its log has the cause")
        return self


def test_bare_engines_that_cannot_run_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(_loader, "native", lambda: FakeNative(fails=True))
    assert bench._bare_contenders([2, 0, 1], notes) == {}
    monkeypatch.setattr(_loader, "native", lambda: FakeNative(fails=False))
    assert list(bench._bare_contenders([2, 0, 1], notes)) == ["bare_enqueue"]
    assert notes == [
        "The bare engines could not be run: ExecuTorch error 0x21; its log has the cause.",
        "The bare engines could not be captured as CUDA graphs: out of memory.",
    ]


def measure(*arguments: str | Path, env: dict[str, str] | None = None) -> Result:
    """Run the command on the fakes, with a cache folder that keeps nothing unless told otherwise."""
    return on_fakes(command, "bench", *arguments, env={"TENSORRT_EXECUTORCH_CACHE": "off", **(env or {})})


def refused(result: Result) -> str:
    """Return the sentence of a command that ended with an error and showed no traceback."""
    assert result.code == 1, (result.out, result.err)
    assert "Traceback" not in result.err
    assert result.last_line.startswith("trt-executorch: ")
    return result.last_line.removeprefix("trt-executorch: ")


@pytest.fixture(scope="module")
def more_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``on_gpu.pte``, whose tensors are the caller's device memory, and ``no_engine.pte``."""
    folder = tmp_path_factory.mktemp("programs")
    code = f"""
        import torch
        from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
        from executorch.exir.passes import MemoryPlanningPass
        from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
        from make_programs import FakePartitioner, Model

        def write(name, function, config):
            program = torch.export.export(Model(function), (torch.zeros(2, 3),))
            edge = to_edge_transform_and_lower(program, partitioner=[FakePartitioner()])
            open({str(folder)!r} + name, "wb").write(edge.to_executorch(config).buffer)

        write("/no_engine.pte", torch.sin, ExecutorchBackendConfig())
        write("/on_gpu.pte", lambda x: x + 1, ExecutorchBackendConfig(
            propagate_device_config=PropagateDeviceConfig(
                skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True),
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False)))
    """
    made = run_code(code, path=[FAKES_SOURCE])
    assert made.code == 0, made.err
    return folder


KEYS = {
    "file", "method", "options", "gpus", "versions", "program", "load", "latency_us", "calls_per_second", "ratio",
    "method_calls", "engines", "memory_bytes", "notes",
}  # fmt: skip


ONCE = ("--calls", "1", "--warm-up", "0", "--no-bare")
# In this order in one process, because importing torch and ExecuTorch takes seconds: options of the process stay set.
RUNS: dict[str, tuple[str, ...]] = {
    "plain": ("host_only.pte", "--calls", "5", "--warm-up", "0"),
    "cold": ("chain.pte", *ONCE),
    "warm": ("chain.pte", *ONCE),
    "carried": ("with_kernels.pte", *ONCE),
    "second_gpu": ("second_gpu.pte", "--calls", "3"),
    "dynamic": ("dynamic.pte", "--calls", "3"),
    "double": ("two_methods.pte", "--calls", "3", "--method", "double"),
    "vetoed": ("host_only.pte", "--calls", "5", "--warm-up", "0", "--no-cuda-graphs"),
    "graphs": ("chain.pte", "--calls", "40", "--warm-up", "3", "--cuda-graphs"),
    "scratch": ("chain.pte", "--calls", "3", "--shared-scratch"),
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each of RUNS wrote."""
    folder = tmp_path_factory.mktemp("documents")
    commands = [
        ["bench", str(PROGRAMS / program), *options, "--json", str(folder / name)]
        for name, (program, *options) in RUNS.items()
    ]
    code = f"""
        from torch_tensorrt_executorch_runtime.cli import app

        for arguments in {commands!r}:
            app(arguments, standalone_mode=False)
    """
    result = on_fakes(run_code, code, env={"TENSORRT_EXECUTORCH_CACHE": str(tmp_path_factory.mktemp("cache"))})
    assert result.code == 0, result.err
    return {name: json.loads((folder / name).read_text()) for name in RUNS}


@needs_fakes
def test_the_document_is_consistent(documents: dict[str, Any]) -> None:
    result = documents["graphs"]
    assert set(result) == KEYS
    assert set(result["latency_us"]) == set(result["calls_per_second"]) == {"delegate", "bare_enqueue", "bare_graph"}
    for latency in result["latency_us"].values():
        assert latency["calls"] == 40
        assert 0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
        assert latency["min"] <= latency["mean"] <= latency["max"]
    assert all(rate > 0 for rate in result["calls_per_second"].values())
    settling, back_to_back = 2 * 3, 3 * 14
    assert result["method_calls"] == 1 + 3 + settling + 40 + back_to_back
    assert len(result["engines"]) == len(result["program"]["engines"]) == 3
    for engine in result["engines"]:
        assert engine["calls"] == engine["calls_per_method_call"] * result["method_calls"]
        assert engine["plain_calls"] + engine["replayed_calls"] == engine["calls"]
        assert engine["replayed_calls"] > 0
        assert engine["captures"] == 1
    kinds = result["memory_bytes"]
    assert kinds["weights"] == sum(engine["weights_bytes"] for engine in result["engines"]) > 0
    assert kinds["scratch"] > 0 and kinds["shared_scratch"] == 0
    ratio, p50 = result["ratio"], {name: item["p50"] for name, item in result["latency_us"].items()}
    assert ratio["bare_graph"] == pytest.approx(p50["delegate"] / p50["bare_graph"])
    assert (ratio["of"], ratio["compared_with"]) == ("delegate", "bare_graph")
    assert ratio["like_with_like"] == ratio["bare_graph"] > 0
    assert result["versions"]["tensorrt"] == "1.6.1.120"
    assert result["versions"]["tensorrt_library"] == str(RTX)
    assert [gpu["name"] for gpu in result["gpus"]] == ["Fake GPU 0"]


@needs_fakes
def test_calls_are_plain_and_compared_with_plain_ones_unless_graphs_are_asked_for(documents: dict[str, Any]) -> None:
    for name in ("plain", "vetoed"):
        result = documents[name]
        (engine,) = result["engines"]
        assert engine["plain_calls"] == engine["calls"] == result["method_calls"]
        assert engine["host_waits"] == engine["calls"], "each call waits for its results in host memory"
        assert result["ratio"]["compared_with"] == "bare_enqueue"
    assert documents["plain"]["options"]["use_cuda_graphs"] is None
    assert documents["vetoed"]["options"]["use_cuda_graphs"] is False


@needs_fakes
def test_engines_may_take_turns_in_shared_scratch(documents: dict[str, Any]) -> None:
    result = documents["scratch"]
    assert result["memory_bytes"]["scratch"] == 0
    assert result["memory_bytes"]["shared_scratch"] > 0
    assert result["options"]["use_shared_activation_scratch"] is True


@needs_fakes
def test_an_engine_of_another_gpu_is_measured_there(documents: dict[str, Any]) -> None:
    result = documents["second_gpu"]
    assert [gpu["index"] for gpu in result["gpus"]] == [1]
    assert result["ratio"]["like_with_like"] > 0


@needs_fakes
def test_dynamic_sizes_and_other_methods_are_measured(documents: dict[str, Any]) -> None:
    assert documents["dynamic"]["ratio"]["bare_enqueue"] > 0
    assert documents["double"]["method"] == "double"
    assert len(documents["double"]["engines"]) == 1


@needs_fakes
def test_kernels_are_compiled_first_and_found_then(documents: dict[str, Any]) -> None:
    load = documents["cold"]["load"]
    assert load["kernels"] == "compiled"
    assert load["load_us"] > 0 and load["first_call_us"] > 0
    assert documents["warm"]["load"]["kernels"] == "found in the cache"
    assert documents["carried"]["load"]["kernels"] == "found in the program"


@needs_fakes
def test_without_bare_engines_there_is_nothing_to_compare_with(documents: dict[str, Any]) -> None:
    assert set(documents["cold"]["latency_us"]) == {"delegate"}
    assert documents["cold"]["ratio"] is None


def test_kernels_of_several_engines_may_have_several_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = KernelInfo("1.6", "GPU", 5, whole=True)
    others = (replace(kernels, gpu="Other"), replace(kernels, version="1.5"), replace(kernels, whole=False))
    carrying = {"a": (kernels,), "b": others}
    engines = [replace(ENGINE, sha256=digest, kernels=carrying.get(digest, ())) for digest in "abcd"]
    delegates = tuple(DelegateInfo("TensorRTBackend", 1, 1, {}, engine) for engine in engines)
    method = method_with(ValueInfo("tensor", "float32", (1,), dynamic=False), delegates=delegates)
    machine = {"tensorrt": {"rtx": {"version": "1.6"}}, "cuda": {"devices": [{"index": 0, "name": "GPU"}]}}
    monkeypatch.setattr(_bench_facts, "delegate_info", lambda: machine)
    origin = _bench_facts.origin_of_kernels(method, {"b"}, {"b", "c"})
    assert origin == "1 found in the program, 1 found in the cache, 1 compiled, 1 neither found nor kept"
    assert _bench_facts.origin_of_kernels(method_with(method.inputs[0]), set(), set()) is None


@needs_fakes
def test_a_method_without_engines_is_measured_alone_and_printed_as_json(more_programs: Path) -> None:
    shown = measure(more_programs / "no_engine.pte", "--calls", "3", "--json", "-")
    assert shown.code == 0, shown.err
    result = shown.json
    assert set(result["latency_us"]) == {"delegate"}
    assert result["engines"] == [] and result["gpus"] == []
    assert result["load"]["kernels"] is None
    assert "has no TensorRT engine" in result["notes"][0]


@needs_fakes
def test_people_see_a_table_and_get_the_files(tmp_path: Path) -> None:
    import numpy

    numpy.save(tmp_path / "x.npy", numpy.ones((2, 3), numpy.float32))
    result = measure(
        PROGRAMS / "add_one.pte", "--calls", "30", "--cuda-graphs", "--input", tmp_path / "x.npy",
        "--json", tmp_path / "out.json", "--histogram", tmp_path / "out.svg",
    )  # fmt: skip
    assert result.code == 0, result.err
    for text in (
        "add_one.pte: ", "method forward, 1 engine of ", "GPU 0: Fake GPU 0, compute capability 9.0",
        "TensorRT-RTX 1.6.1.120", "loaded in ",
        " ms (kernels: neither found nor kept), first call ", "µs per call and wait", "delegate, called from Python",
        "bare engines, enqueued", "bare engines, CUDA graphs", "calls per second, back to back",
        " times the p50 of bare engines, CUDA graphs, ", "staged in", "GPU memory of the program: weights 64 B",
        "planned by ExecuTorch on cuda:0", "note: The delegate's calls hold ",
    ):  # fmt: skip
        assert text in result.out, text
    written = json.loads((tmp_path / "out.json").read_text())
    assert set(written) == KEYS
    assert written["options"]["inputs"] == [str(tmp_path / "x.npy")]
    picture = ElementTree.parse(tmp_path / "out.svg").getroot()
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}polygon"))) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "out.svg", "x.npy"]


@needs_fakes
def test_inspect_says_where_the_tensors_of_a_program_are(more_programs: Path) -> None:
    shown = on_fakes(command, "inspect", more_programs / "on_gpu.pte")
    assert shown.out.count("[2, 3] on cuda:0") == 2, shown.out


@needs_fakes
def test_a_program_on_the_gpu_needs_a_torch_that_sees_it(more_programs: Path) -> None:
    sentence = refused(measure(more_programs / "on_gpu.pte"))
    assert re.search(r"on_gpu.pte takes or returns tensors on cuda:0, but torch \S+ finds no GPU here\.", sentence)


@needs_fakes
def test_a_machine_without_a_gpu_is_refused() -> None:
    sentence = refused(measure(PROGRAMS / "add_one.pte", env={"FAKE_CUDA_DEVICES": "0"}))
    assert "add_one.pte cannot be loaded" in sentence
    assert "The log above has the cause; `trt-executorch check " in sentence


@needs_fakes
def test_what_cannot_be_measured_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    text = tmp_path / "text.pte"
    text.write_text("hello " * 20)
    program = PROGRAMS / "add_one.pte"
    missing = tmp_path / "none" / "out"
    refusals = {
        (text,): "This is no ExecuTorch program",
        (tmp_path / "none.pte",): "No such file or directory",
        (program, "--method", "other"): "has no method 'other'. It has: forward.",
        (program, "--json", missing): f"{missing.parent}: The folder does not exist. Create it first.",
        (program, "--histogram", missing): f"{missing.parent}: The folder does not exist. Create it first.",
        (program, "--json", tmp_path): f"{tmp_path}: This is a folder. Give the name of a file in it.",
        (program, "--input", tmp_path / "x.pt"): "x.pt does not exist.",
    }
    for arguments, sentence in refusals.items():
        result = measure(*arguments)
        assert sentence in refused(result)
        assert "Using TensorRT" not in result.err


def test_fewer_calls_than_one_are_wrong_usage() -> None:
    for option, value in (("--calls", "0"), ("--warm-up", "-1")):
        result = command("bench", "x.pte", option, value)
        assert result.code == 2
        assert option in result.err
