"""The delegate's slot table against the official Python bindings: both answer the same questions about one engine."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import models

from .blobs import find_blobs
from .builds import slot_probe
from .results import Recorder

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Engine files: static, dynamic, several outputs and types, several profiles, streamed weights, an alias."""
    from torch_tensorrt_executorch_runtime.export import save

    from . import trt_engines

    folder = tmp_path_factory.mktemp("engines")
    files = {}
    cases = [("encoder", torch.float16), ("dynamic_encoder", torch.float32), ("zero_dim", torch.float32)]
    cases += [("four_outputs", torch.float32), ("int64", torch.float32)]
    for name, dtype in cases:
        program = models.CASES[name].methods(dtype)["forward"].export()
        save(program, folder / f"{name}.pte")
        (blob,) = find_blobs(folder / f"{name}.pte")
        files[name] = _write(folder / f"{name}.engine", blob.engine)
    files["two_profiles"] = _write(folder / "two_profiles.engine", trt_engines.two_profiles())
    files["cache_update"] = _write(folder / "cache_update.engine", trt_engines.cache_update())
    return files


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


class Bindings:
    """Asks one engine through the Python bindings; builds what slots/probe.cpp prints."""

    def __init__(self, path: Path) -> None:
        import tensorrt_rtx as trt

        self.trt = trt
        self.logger = trt.Logger(trt.Logger.ERROR)
        self.runtime = trt.Runtime(self.logger)
        self.engine = self.runtime.deserialize_cuda_engine(path.read_bytes())
        self.names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]

    def describe(self) -> dict[str, Any]:
        result: dict[str, Any] = {"engine": self.describe_engine()}
        config = self.engine.create_runtime_config()
        cache = config.create_runtime_cache()
        result["cache_accepted"] = config.set_runtime_cache(cache)
        context = self.engine.create_execution_context(config)
        result["runs"] = {key: self.run(context, index) for index, key in enumerate(("min", "opt", "max"))}
        result["runs"]["own_scratch"] = self.run_on_own_scratch()
        result["cache"] = self.exchange_cache(cache, config)
        result["capturable"] = context.is_stream_capturable(torch.cuda.Stream().cuda_stream)
        result["beyond_profile"] = self.refuse_beyond_profile(context)
        return result

    def run_on_own_scratch(self) -> dict[str, Any]:
        config = self.engine.create_runtime_config()
        config.set_execution_context_allocation_strategy(self.trt.ExecutionContextAllocationStrategy.USER_MANAGED)
        context = self.engine.create_execution_context(config)
        size = self.engine.device_memory_size_v2
        scratch = torch.empty(max(1, size), dtype=torch.uint8, device="cuda")
        context.set_device_memory(scratch.data_ptr(), size)
        return self.run(context, 1)

    def exchange_cache(self, filled: Any, config: Any) -> dict[str, bool]:
        empty = config.create_runtime_cache()
        result = {"takes_zeros": empty.deserialize(bytes(4096))}
        data = bytes(filled.serialize())
        return {**result, "holds_something": len(data) > 0, "takes_its_own": empty.deserialize(data)}

    def is_input(self, name: str) -> bool:
        return bool(self.engine.get_tensor_mode(name) == self.trt.TensorIOMode.INPUT)

    def is_dynamic(self, name: str) -> bool:
        return -1 in self.engine.get_tensor_shape(name)

    def describe_tensor(self, name: str) -> dict[str, Any]:
        engine = self.engine
        profiles = range(engine.num_optimization_profiles)
        return {
            "name": name,
            "mode": int(engine.get_tensor_mode(name)),
            "dtype": int(engine.get_tensor_dtype(name)),
            "location": int(engine.get_tensor_location(name)),
            "shape_inference_io": engine.is_shape_inference_io(name),
            "shape": list(engine.get_tensor_shape(name)),
            "profiles": [self.profile(name, index) for index in profiles]
            if self.is_input(name) and self.is_dynamic(name)
            else [],
            "formats": [int(engine.get_tensor_format(name, index)) for index in profiles],
            "aliased_input": None if self.is_input(name) else engine.get_aliased_input_tensor(name),
        }

    def profile(self, name: str, index: int) -> list[list[int]]:
        return [list(shape) for shape in self.engine.get_tensor_profile_shape(name, index)]

    def describe_engine(self) -> dict[str, Any]:
        engine = self.engine
        size = engine.streamable_weights_size
        result = {
            "layers": engine.num_layers,
            "profiles": engine.num_optimization_profiles,
            "auxiliary_streams": engine.num_aux_streams,
            "weights_size": engine.get_engine_stat(self.trt.EngineStat.TOTAL_WEIGHTS_SIZE),
            "streamable_weights_size": size,
            "budget": engine.weight_streaming_budget_v2,
            "device_memory_size": engine.device_memory_size_v2,
            "unknown_name_mode": int(engine.get_tensor_mode("there is no such tensor")),
            "tensors": [self.describe_tensor(name) for name in self.names],
        }
        if size > 0:
            result["automatic_budget_is_in_range"] = 0 <= engine.get_weight_streaming_automatic_budget() <= size
            engine.weight_streaming_budget_v2 = size // 2
            result["half_budget_accepted"] = True
            result["half_budget"] = engine.weight_streaming_budget_v2
            result["device_memory_size_at_half_budget"] = engine.device_memory_size_v2
        return result

    def shape_at(self, name: str, selector: int) -> list[int]:
        return self.profile(name, 0)[selector] if self.is_dynamic(name) else list(self.engine.get_tensor_shape(name))

    def run(self, context: Any, selector: int) -> dict[str, Any]:
        inputs = [name for name in self.names if self.is_input(name)]
        accepted = {name: context.set_input_shape(name, self.shape_at(name, selector)) for name in inputs}
        result: dict[str, Any] = {"shape_accepted": accepted, "infer_shapes": len(context.infer_shapes())}
        result["shapes"] = {name: list(context.get_tensor_shape(name)) for name in self.names}
        buffers = {name: self.buffer(name, result["shapes"][name]) for name in self.names}
        aliases = {name: None if name in inputs else self.engine.get_aliased_input_tensor(name) for name in self.names}
        result["address_accepted"] = {
            name: context.set_tensor_address(name, buffers[aliases[name] or name].data_ptr()) for name in self.names
        }
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        result["enqueued"] = context.execute_async_v3(stream.cuda_stream)
        stream.synchronize()
        outputs = [name for name in self.names if not (name in inputs or aliases[name] or self.is_dynamic(name))]
        if outputs:
            result["outputs"] = {name: self.digest(buffers[name], result["shapes"][name], name) for name in outputs}
        return result

    def size_bytes(self, shape: list[int], name: str) -> int:
        size: int = self.engine.get_tensor_dtype(name).itemsize
        for extent in shape:
            size *= extent
        return size

    def buffer(self, name: str, shape: list[int]) -> torch.Tensor:
        size = max(1, self.size_bytes(shape, name))
        fill = 0 if self.engine.get_tensor_dtype(name) == self.trt.int32 else 1  # as in slots/probe.cpp
        return torch.full((size,), fill, dtype=torch.uint8, device="cuda")

    def digest(self, buffer: torch.Tensor, shape: list[int], name: str) -> str:
        return hashlib.sha256(buffer.cpu().numpy().tobytes()[: self.size_bytes(shape, name)]).hexdigest()

    def refuse_beyond_profile(self, context: Any) -> dict[str, Any] | None:
        for name in self.names:
            shape = self.shape_at(name, 2) if self.is_input(name) else []
            if shape:
                shape[0] += 1000
                accepted = context.set_input_shape(name, shape)
                return {"tensor": name, "accepted": accepted, "shape": list(context.get_tensor_shape(name))}
        return None


def tensorrt_library() -> Path:
    """Return the library that the bindings use."""
    spec = importlib.util.find_spec("tensorrt_rtx_libs")
    assert spec is not None
    assert spec.submodule_search_locations, "tensorrt-rtx-cu13-libs is not installed"
    return Path(spec.submodule_search_locations[0]) / "libtensorrt_rtx.so.1"


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Return a line for every leaf in which two descriptions differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted(ours.keys() | theirs.keys())
        missing = object()
        return [d for k in keys for d in differences(ours.get(k, missing), theirs.get(k, missing), f"{path}.{k}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [d for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) for d in differences(a, b, f"{path}[{i}]")]
    return [] if ours == theirs else [f"{path}: slots say {ours}, bindings say {theirs}"]


def leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(leaves, value.values()))
    return sum(map(leaves, value)) if isinstance(value, list) else 1


def test_slots_answer_as_the_bindings_do(engines: dict[str, Path], recorder: Recorder) -> None:
    environment = {**os.environ, "TENSORRT_EXECUTORCH_LIBRARY": str(tensorrt_library())}
    command = [slot_probe(), *engines.values()]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    ours = dict(zip(engines, json.loads(done.stdout)["engines"], strict=True))
    theirs = {name: Bindings(path).describe() for name, path in engines.items()}
    found = differences(ours, theirs)
    recorder.note("slots", engines=list(engines), answers_compared=leaves(theirs), differences=found)
    assert recorder.check("slots.equal_bindings", len(found), limit=0, unit="answers that differ"), "\n".join(found)
