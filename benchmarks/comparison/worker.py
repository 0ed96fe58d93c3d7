"""A way to run a model that needs a process of its own: ``python -m comparison.worker KIND MODEL FOLDER``.

ONNX Runtime's provider brings another version of TensorRT-RTX under the same library name, and torch.compile may need
another PyTorch. Prints ``{"ready": ...}`` once the result was found right; then, for every line ``n`` that it reads,
makes n calls and prints their times in microseconds, so that it can take turns with others.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gpu.every_tensor.programs import PROGRAMS

from .timing import Block, timed

Ready = dict[str, Any]


def torch_compile(model: str, _: Path) -> tuple[Block, Ready]:
    """Compile with ``mode="reduce-overhead"``, which replays CUDA graphs."""
    program = PROGRAMS[f"{model}.device"]
    inputs = [x.cuda() for x in program.example()]
    start = time.perf_counter()
    compiled = torch.compile(program.module().cuda(), mode="reduce-overhead")

    def call() -> torch.Tensor:
        result: torch.Tensor = compiled(*inputs)
        return result

    with torch.inference_mode():
        for _round in range(4):
            result = call()
        torch.cuda.synchronize()
    ready = {"version": torch.__version__, "error": _error(model, result.cpu()), "seconds": time.perf_counter() - start}
    return timed(call, torch.cuda.synchronize, torch.inference_mode), ready


def onnxruntime(model: str, folder: Path, *, graphs: bool = False) -> tuple[Block, Ready]:
    """Use ONNX Runtime's TensorRT-RTX provider with inputs and outputs on the GPU."""
    import onnxruntime as ort
    import onnxruntime_ep_nv_tensorrt_rtx as provider

    start = time.perf_counter()
    ort.register_execution_provider_library("nv_tensorrt_rtx", provider.get_library_path())
    name = provider.get_ep_name()
    devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
    if not devices:
        raise RuntimeError(f"{name} offers no device; there are {[d.ep_name for d in ort.get_ep_devices()]}")
    options = ort.SessionOptions()
    options.add_provider_for_devices(devices[:1], {"enable_cuda_graph": "1"} if graphs else {})
    session = ort.InferenceSession(str(folder / f"{model}.onnx"), options)
    binding, outputs = _bind(ort, session, [x.numpy() for x in PROGRAMS[f"{model}.device"].example()])

    def call() -> None:
        session.run_with_iobinding(binding)  # which need not wait for the results

    for _ in range(4):
        call()
    result = torch.from_numpy(outputs[0].numpy())
    ready = {"version": ort.__version__, "error": _error(model, result), "seconds": time.perf_counter() - start}
    return timed(call, torch.cuda.synchronize), ready


def onnxruntime_graphs(model: str, folder: Path) -> tuple[Block, Ready]:
    """Let the provider replay CUDA graphs."""
    return onnxruntime(model, folder, graphs=True)


def _bind(ort: Any, session: Any, arrays: list[Any]) -> tuple[Any, list[Any]]:
    nvidia = 0x10DE
    on_gpu = [ort.OrtValue.ortvalue_from_numpy(array, "gpu", 0, nvidia) for array in arrays]
    binding = session.io_binding()
    for given, value in zip(session.get_inputs(), on_gpu, strict=True):
        binding.bind_ortvalue_input(given.name, value)
    outputs = []
    for made in session.get_outputs():
        outputs.append(ort.OrtValue.ortvalue_from_shape_and_type(made.shape, arrays[0].dtype, "gpu", 0, nvidia))
        binding.bind_ortvalue_output(made.name, outputs[-1])
    return binding, outputs


def _error(model: str, result: torch.Tensor) -> float:
    """Return the relative error against eager PyTorch in float32 on the host."""
    program = PROGRAMS[f"{model}.device"]
    with torch.no_grad():
        expected = program.module().float()(*(x.float() for x in program.example()))
    error = float((result.double() - expected.double()).norm() / expected.double().norm())
    if not error < 5e-2:
        raise RuntimeError(f"the result is wrong by {error:.1e} of its size")
    return error


KINDS: dict[str, Callable[[str, Path], tuple[Block, Ready]]] = {
    "torch_compile": torch_compile,
    "onnxruntime": onnxruntime,
    "onnxruntime_graphs": onnxruntime_graphs,
}


def main() -> None:
    """Prepare, then serve turns until the input ends."""
    kind, model, folder = sys.argv[1:]
    try:
        block, ready = KINDS[kind](model, Path(folder))
    except Exception as error:
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:600]}), flush=True)
        raise
    print(json.dumps({"ready": ready}), flush=True)
    for line in sys.stdin:
        print(json.dumps(block(int(line))), flush=True)


if __name__ == "__main__":
    main()
