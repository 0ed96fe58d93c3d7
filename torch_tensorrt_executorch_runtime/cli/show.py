"""``trt-executorch inspect``: what is in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from torch_tensorrt_executorch_runtime.cli import _output
from torch_tensorrt_executorch_runtime.inspect import (
    DelegateInfo,
    EngineInfo,
    MethodInfo,
    ProgramInfo,
    ValueInfo,
    inspect_program,
)

__all__ = ["inspect"]

_PRODUCT = {"rtx": "TensorRT-RTX", "tensorrt": "TensorRT", "unknown": "an unknown TensorRT"}


def inspect(
    file: Annotated[Path, typer.Argument(help="A .pte file.", show_default=False)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what is in a program: methods, delegates, engines, bindings, sizes, and what stayed outside and why."""
    program = inspect_program(file)
    if as_json:
        _output.print_json(program.to_dict())
    else:
        _show_program(program, _output.console())


def _show_program(program: ProgramInfo, console: Console) -> None:
    engines = sum(len(method.engines) for method in program.methods)
    console.print(
        f"{program.path}: {_output.describe_size(program.size_bytes)}, {_count(len(program.methods), 'method')}, "
        f"{_count(engines, 'engine')}"
    )
    for method in program.methods:
        console.print()
        _show_method(method, console)
    console.print()
    segments = _output.table("offset", "size", "segment")
    for segment in program.segments:
        segments.add_row(str(segment.offset), _output.describe_size(segment.size_bytes), segment.holds)
    console.print(segments)


def _show_method(method: MethodInfo, console: Console) -> None:
    console.print(f"method {method.name}")
    values = _output.table("", "", "type", "shape")
    for direction, items in (("input", method.inputs), ("output", method.outputs)):
        for index, value in enumerate(items):
            values.add_row(f"  {direction}", str(index), value.dtype or value.kind, _shape(value))
    console.print(values)
    for index, delegate in enumerate(method.delegates):
        _show_delegate(index, delegate, console)
    for operator in method.operators:
        console.print(f"  operator {operator.name}, called {_times(operator.calls)}")
    for memory in method.memory:
        console.print(f"  planned memory on {memory.device}: {_output.describe_size(memory.size_bytes)}")
    _show_outside(method, console)


def _shape(value: ValueInfo) -> str:
    if value.kind != "tensor":
        return ""
    place = "" if value.device == "cpu" else f" on {value.device}"
    return f"{_output.describe_shape(value.shape)}{' at most' if value.dynamic else ''}{place}"


def _show_delegate(index: int, delegate: DelegateInfo, console: Console) -> None:
    size = _output.describe_size(delegate.size_bytes)
    console.print(f"  delegate {index}: {delegate.backend}, {size}, called {_times(delegate.calls)}")
    for key, value in delegate.compile_specs.items():
        console.print(f"    {key} = {value}")
    if delegate.engine is not None:
        _show_engine(delegate.engine, console)


def _show_engine(engine: EngineInfo, console: Console) -> None:
    facts = [f"{_PRODUCT[engine.flavor]} {engine.version or '(version not recorded)'}"]
    facts.append(_output.describe_size(engine.size_bytes))
    if engine.layers is not None:
        facts.append(_count(engine.layers, "layer"))
    if engine.build_seconds is not None:
        facts.append(f"built in {engine.build_seconds:.2f} s")
    facts.append(_gpus(engine))
    console.print(f"    engine: {', '.join(facts)}")
    console.print(f"    sha256: {engine.sha256} ({'recorded and right' if engine.sha256_recorded else 'not recorded'})")
    bindings = _output.table("", "binding", "type", "shape", "from", "tuned for", "to")
    for binding in engine.bindings:
        profile = binding.profile or {}
        bindings.add_row(
            "    input" if binding.is_input else "    output",
            binding.name,
            binding.dtype or "?",
            _output.describe_shape(binding.shape) if binding.dtype else "?",
            *(_output.describe_shape(profile[key]) if key in profile else "" for key in ("min", "opt", "max")),
        )
    console.print(bindings)
    for alias in engine.aliases:
        console.print(f"    {alias.output} is written into {alias.input} ({alias.kind})")
    for kernels in engine.kernels:
        state = "" if kernels.whole else ", damaged"
        console.print(
            f"    compiled kernels: {_output.describe_size(kernels.size_bytes)} for {kernels.gpu}, "
            f"TensorRT-RTX {kernels.version}{state}"
        )


def _gpus(engine: EngineInfo) -> str:
    if engine.compute_capabilities is None:
        return "GPUs not recorded"
    if not engine.compute_capabilities:
        return f"for every GPU that {_PRODUCT[engine.flavor]} supports"
    return f"for compute capability {', '.join(engine.compute_capabilities)}"


def _show_outside(method: MethodInfo, console: Console) -> None:
    if method.outside is None:
        console.print("  outside of the engines: not recorded")
    elif not method.outside:
        console.print("  outside of the engines: nothing")
    else:
        outside = _output.table("", "outside of the engines", "calls", "reason")
        for item in method.outside:
            outside.add_row("  ", item.operator, str(item.count), item.reason)
        console.print(outside)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
