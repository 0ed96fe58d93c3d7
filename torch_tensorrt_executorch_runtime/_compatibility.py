"""Whether a program would run on a machine, told from the file and from what the machine has, without loading it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._blob import BACKEND_ID
from torch_tensorrt_executorch_runtime._info import delegate_info
from torch_tensorrt_executorch_runtime.inspect import EngineInfo, MethodInfo, ProgramInfo

__all__ = ["Machine", "Verdict", "check_program", "this_machine"]

_LIBRARIES_OF_FLAVOR = {"rtx": ("rtx",), "tensorrt": ("full", "lean", "dispatch")}
_PRODUCT = {"rtx": "TensorRT-RTX", "tensorrt": "TensorRT"}


@dataclass(frozen=True)
class Machine:
    """What a program can use: GPUs, TensorRT libraries, and what is registered in ExecuTorch.

    Attributes:
        devices: Compute capability of each GPU by its number.
        device_error: Why no GPU can be used; empty when there is one.
        tensorrt: Version of each TensorRT library by flavour: ``rtx``, ``full``, ``lean``, ``dispatch``.
        tensorrt_errors: Why a flavour cannot be used.
        backends: Names in ExecuTorch's registry of backends.
        operators: Names in ExecuTorch's registry of operators.
    """

    devices: tuple[str, ...] = ()
    device_error: str = ""
    tensorrt: tuple[tuple[str, str], ...] = ()
    tensorrt_errors: tuple[tuple[str, str], ...] = ()
    backends: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """What stands against running a program, and what cannot be known before it is loaded."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether nothing stands against it."""
        return not self.problems


def this_machine() -> Machine:
    """Describe the machine and the process that ask.

    Raises:
        DelegateCompatibilityError: The delegate cannot be registered.
        NotRegisteredError: The environment switches it off.
    """
    module = _loader.native()
    info = delegate_info()
    _load_stock_parts(Path(info["executorch"]["folder"]) / "lib")
    libraries: dict[str, dict[str, Any]] = info["tensorrt"]
    return Machine(
        devices=tuple(str(device["compute_capability"]) for device in info["cuda"]["devices"]),
        device_error=info["cuda"]["error"] or "",
        tensorrt=tuple((name, item["version"]) for name, item in libraries.items() if item["version"]),
        tensorrt_errors=tuple((name, item["error"]) for name, item in libraries.items() if item["error"]),
        backends=frozenset(module.registered_backends()),
        operators=frozenset(module.registered_operators()),
    )


def _load_stock_parts(folder: Path) -> None:
    """Map what ``executorch.runtime`` maps, so that its operators and backends are registered without torch."""
    for library in [folder / "libexecutorch_kernels_optimized.so", *sorted(folder.glob("libexecutorch_backend_*.so"))]:
        with contextlib.suppress(OSError):  # a part that does not load is one that the program cannot use either
            ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)


def check_program(program: ProgramInfo, machine: Machine) -> Verdict:
    """Compare what a program needs with what a machine has.

    Args:
        program: From ``inspect_program``.
        machine: From ``this_machine``, or made up.

    Returns:
        Each problem and each note once, in the order of the file.
    """
    problems: list[str] = []
    notes: list[str] = []
    for method in program.methods:
        problems += _missing_backends(method, machine)
        problems += _missing_operators(method, machine)
        for engine in method.engines:
            problems += _engine_problems(engine, machine)
            notes += _engine_notes(engine, machine)
    return Verdict(tuple(dict.fromkeys(problems)), tuple(dict.fromkeys(notes)))


def _missing_backends(method: MethodInfo, machine: Machine) -> Iterator[str]:
    for delegate in method.delegates:
        if delegate.backend not in machine.backends:
            hint = (
                "Import torch_tensorrt_executorch_runtime."
                if delegate.backend == BACKEND_ID
                else "Install the ExecuTorch build or the package that brings it."
            )
            yield f"Method {method.name!r} needs the backend {delegate.backend}, which is not registered here. {hint}"


def _missing_operators(method: MethodInfo, machine: Machine) -> Iterator[str]:
    missing = [item.name for item in method.operators if item.name not in machine.operators]
    if missing:
        yield (
            f"Method {method.name!r} calls {', '.join(missing)}, which ExecuTorch's optimized kernels do not have. "
            "Load the library that registers them, or export the model without them."
        )


def _engine_problems(engine: EngineInfo, machine: Machine) -> Iterator[str]:
    if not machine.devices:
        cause = f": {machine.device_error}" if machine.device_error else ""
        yield f"The program has TensorRT engines, but no NVIDIA GPU can be used{cause.rstrip('.')}."
    elif engine.device_id >= len(machine.devices):
        yield (
            f"An engine was exported for GPU {engine.device_id}, but this machine shows {len(machine.devices)} GPU(s), "
            "counted from 0. Export it for another device, or set CUDA_VISIBLE_DEVICES."
        )
    elif _is_older_gpu(engine, machine):
        yield (
            f"An engine was built for compute capability {', '.join(engine.compute_capabilities or ())}, but GPU "
            f"{engine.device_id} has {machine.devices[engine.device_id]}. Export the model again for this GPU."
        )
    yield from _tensorrt_problems(engine, machine)


def _tensorrt_problems(engine: EngineInfo, machine: Machine) -> Iterator[str]:
    if engine.flavor not in _LIBRARIES_OF_FLAVOR:
        yield "An engine does not begin as an engine of TensorRT or TensorRT-RTX does: it is damaged. Export it again."
        return
    product = _PRODUCT[engine.flavor]
    library = _library(engine, machine)
    if library is None:
        why = "; ".join(text for name, text in machine.tensorrt_errors if name in _names(engine))
        yield (
            f"The program needs {product}{_of(engine.version)}, but no usable library was found"
            f"{f' ({why})' if why else ''}. "
            f'Run: pip install "torch-tensorrt-executorch-runtime[{engine.flavor}]"'
        )
    elif engine.version and _release(library) < _release(engine.version):
        yield (
            f"An engine was built by {product} {engine.version}, but {product} {library} is installed, which is older. "
            f"Install {product} {engine.version}, or export the model again."
        )


def _engine_notes(engine: EngineInfo, machine: Machine) -> Iterator[str]:
    library = _library(engine, machine)
    product = _PRODUCT.get(engine.flavor, "TensorRT")
    if engine.version is None:
        yield "The file does not record which TensorRT built its engines; that is only known when they are loaded."
    elif library is not None and _release(library) > _release(engine.version):
        yield (
            f"An engine was built by {product} {engine.version} and {product} {library} is installed: "
            "whether it accepts the engine is only known when it is loaded."
        )
    if not engine.compute_capabilities or engine.device_id >= len(machine.devices) or _is_older_gpu(engine, machine):
        return
    capability = machine.devices[engine.device_id]
    if capability not in engine.compute_capabilities:
        yield (
            f"An engine was built for compute capability {', '.join(engine.compute_capabilities)}, and this GPU has "
            f"{capability}: whether it is accepted is only known when it is loaded."
        )


def _is_older_gpu(engine: EngineInfo, machine: Machine) -> bool:
    capabilities = engine.compute_capabilities
    if not capabilities:
        return False
    return _release(machine.devices[engine.device_id]) < min(_release(item) for item in capabilities)


def _names(engine: EngineInfo) -> tuple[str, ...]:
    return _LIBRARIES_OF_FLAVOR.get(engine.flavor, ())


def _library(engine: EngineInfo, machine: Machine) -> str | None:
    """Version of the library that the delegate would choose for an engine."""
    versions = dict(machine.tensorrt)
    return next((versions[name] for name in _names(engine) if name in versions), None)


def _of(version: str | None) -> str:
    return f" {version}" if version else ""


def _release(text: str) -> tuple[int, ...]:
    """Major and minor number: TensorRT's patch releases read each other's engines."""
    try:
        return Version(text).release[:2]
    except InvalidVersion:
        return ()
