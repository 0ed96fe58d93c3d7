"""What the methods of our programs do in Python beyond ExecuTorch's own.

The methods that ``executorch.runtime`` gives for programs with TensorRT engines convert inputs that lie otherwise in
memory than the program expects, have results on the GPU copied on the stream that the caller chose, and call an engine
directly that is called again and again.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._boundary import Boundary, read_boundaries
from torch_tensorrt_executorch_runtime._current_stream import keep_for, stream_to_follow
from torch_tensorrt_executorch_runtime._direct_call import DirectCall, with_delegate
from torch_tensorrt_executorch_runtime._layouts import with_layouts
from torch_tensorrt_executorch_runtime._program import map_file

__all__ = ["SWITCH_VARIABLE", "install"]

SWITCH_VARIABLE = "TENSORRT_EXECUTORCH_CONVERT_LAYOUTS"

_MARK = "_gives_methods_of_this_package"
_PARAMETERS = {
    ("Runtime", "load_program"): ["self", "data"],
    ("Program", "load_method"): ["self", "name"],
    ("Method", "execute"): ["self", "inputs"],
}
_LOGGER = logging.getLogger("torch_tensorrt_executorch_runtime")


def install(runtime: Any) -> None:
    """Let ``executorch.runtime`` give programs with TensorRT engines whose methods take any layout and any stream.

    Other programs, and ExecuTorch's classes themselves, stay as they are. Doing it again changes nothing. Where
    ExecuTorch's classes are not as expected, one log line says so and nothing is changed.
    """
    try:
        if not hasattr(runtime.Runtime.load_program, _MARK):
            _check_classes(runtime)
            runtime.Runtime.load_program = _loading(runtime.Runtime.load_program, _program_class(runtime))
    except Exception as error:
        _step_aside(
            "Inputs are not converted, and results not copied on the caller's stream, by this ExecuTorch", error
        )


def _check_classes(runtime: Any) -> None:
    for (owner, name), expected in _PARAMETERS.items():
        found = list(inspect.signature(getattr(getattr(runtime, owner), name)).parameters)
        if found[: len(expected)] != expected:
            raise TypeError(f"{owner}.{name} takes {found}, but {expected} is expected")


def _program_class(runtime: Any) -> Any:
    """Return the class of programs with engines, a `Program` whose methods are those of this module."""

    class Method(runtime.Method):  # type: ignore[misc]
        _tensorrt_boundary: Boundary
        _tensorrt_direct: DirectCall | None

        def execute(self, inputs: Sequence[Any], *, clone_outputs: bool = True) -> Sequence[Any]:
            """Execute the method.

            Args:
                inputs: Tensors and other values, in any memory layout.
                clone_outputs: False gives results without a copy, in the method's own memory, which the next call
                    overwrites. Use them only while method and program are there.

            Returns:
                The results. Those on the GPU are ready in the order of the caller's stream, where there is one.
            """
            # Between two replays every tenth of a microsecond counts, so the direct way comes before any other look.
            direct = self._tensorrt_direct
            if direct is None:
                return self._through_executorch(inputs, clone_outputs)
            with direct.lock:
                way = direct.last
                results = way.outputs if way.run(inputs) else direct.run_another(inputs)
                if results is None:
                    return self._through_executorch(inputs, clone_outputs)
                return [x.clone() if clone_outputs else x.detach() for x in results]

        def _through_executorch(self, inputs: Sequence[Any], clone_outputs: bool) -> Sequence[Any]:
            boundary = self._tensorrt_boundary
            inputs = with_layouts(inputs, boundary.input_orders)
            outputs: Sequence[Any]
            stream = None if boundary.output_gpu is None else stream_to_follow(boundary.output_gpu)
            if stream is None:
                outputs = self._method(inputs, clone_outputs)
                if self._tensorrt_direct is not None:
                    self._tensorrt_direct.learn(self._method, inputs)
                return outputs
            # ExecuTorch copies results on PyTorch's current stream, which knows nothing of the engine's.
            current = torch.cuda.current_stream(boundary.output_gpu)
            keep_for(stream, inputs)
            with torch.cuda.stream(stream):
                outputs = self._method(inputs, clone_outputs)
            keep_for(current, outputs)
            return outputs

    class Program(runtime.Program):  # type: ignore[misc]
        _tensorrt_boundaries: Mapping[str, Boundary]
        _tensorrt_is_traced: bool

        def load_method(self, name: str) -> Any:
            load = super().load_method
            method, brought = with_delegate(lambda: load(name))
            boundary = self._tensorrt_boundaries.get(name)
            if boundary is not None and type(method) is runtime.Method:
                method._tensorrt_boundary = boundary
                handle = brought if self._may_go_directly(boundary) else None
                method._tensorrt_direct = None if handle is None else DirectCall(handle)
                method.__class__ = Method
            return method

        def _may_go_directly(self, boundary: Boundary) -> bool:
            # ExecuTorch writes its trace on its own way only. Methods without memory on a GPU share theirs, so that
            # another thread's call of another method could overwrite results before they are copied.
            has_own_memory = boundary.output_gpu is not None or len(self.method_names) == 1
            return boundary.is_one_call and has_own_memory and not self._tensorrt_is_traced

    derived: Any
    for derived in (Method, Program):
        functools.update_wrapper(derived, derived.__base__, updated=())
        # Refused here, and not at a call, should objects of the one not be able to become objects of the other.
        object.__new__(derived.__base__).__class__ = derived
    return Program


def _loading(load: Any, program_class: Any) -> Any:
    @functools.wraps(load)
    def load_program(self: Any, data: Any, **options: Any) -> Any:
        program = load(self, data, **options)
        _prepare(program, data, program_class, is_traced=bool(options.get("enable_etdump")))
        return program

    setattr(load_program, _MARK, True)
    return load_program


def _prepare(program: Any, data: Any, program_class: Any, *, is_traced: bool) -> None:
    """Make a program with engines one of ours. The file was just read, so it is read again now."""
    if type(program) is not program_class.__base__:
        return
    try:
        content = map_file(Path(data)) if isinstance(data, str | Path) else memoryview(program._data)
        boundaries = read_boundaries(content, _loader.BACKEND_NAME)
    except Exception as error:
        _step_aside("The inputs that a program expects cannot be read, so they are not converted", error)
        return
    if boundaries:
        program._tensorrt_boundaries = boundaries if _converts() else _without_orders(boundaries)
        program._tensorrt_is_traced = is_traced
        program.__class__ = program_class


def _converts() -> bool:
    return os.environ.get(SWITCH_VARIABLE, "").strip().lower() not in {"0", "false", "no"}


def _without_orders(boundaries: dict[str, Boundary]) -> dict[str, Boundary]:
    return {name: dataclasses.replace(boundary, input_orders=()) for name, boundary in boundaries.items()}


@functools.cache
def _warn_once(text: str) -> None:
    _LOGGER.warning("%s", text)


def _step_aside(text: str, error: Exception) -> None:
    _warn_once(
        f"{text} ({error}). Give tensors in the program's layout: call .contiguous(); and enter torch.cuda.stream() "
        "beside caller_stream()."
    )
