"""Brings the tensors of Python callers to the memory layout that a program expects.

ExecuTorch 1.5 copies or shares the bytes of an input as they lie in memory. It takes a tensor in ``channels_last``
layout for a program that expects the default one, and the reverse, and computes with the wrong elements; the delegate
cannot see it any more. So the methods that ``executorch.runtime`` gives for our programs convert such inputs first.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._input_orders import Order, map_file, read_input_orders

__all__ = ["SWITCH_VARIABLE", "install", "with_layouts"]

SWITCH_VARIABLE = "TENSORRT_EXECUTORCH_CONVERT_LAYOUTS"

_CHANNELS_LAST = (0, 2, 3, 1)
_MARK = "_converts_layouts"
_PARAMETERS = {
    ("Runtime", "load_program"): ["self", "data"],
    ("Program", "load_method"): ["self", "name"],
    ("Method", "execute"): ["self", "inputs"],
}
_LOGGER = logging.getLogger("torch_tensorrt_executorch_runtime")


def with_layouts(inputs: Sequence[Any], orders: Sequence[Order | None]) -> Sequence[Any]:
    """Return the inputs with every tensor in the order of dimensions that the program expects.

    What lies right already is passed as it is, and the whole sequence when all of it does. What does not fit the
    program at all is left to ExecuTorch to refuse.

    Args:
        inputs: What the caller gave.
        orders: One for each input of the program, as `read_input_orders` has them.
    """
    for x, order in zip(inputs, orders, strict=False):
        if isinstance(x, Tensor) and not (x.is_contiguous() if order is None else _lies_in(x, order)):
            break
    else:
        return inputs
    return [*map(_converted, inputs, orders), *inputs[len(orders) :]]


def _lies_in(x: Tensor, order: Order) -> bool:
    if x.dim() != len(order):
        return True
    return order == _CHANNELS_LAST and x.is_contiguous(memory_format=torch.channels_last)


def _converted(x: Any, order: Order | None) -> Any:
    if not isinstance(x, Tensor) or (x.is_contiguous() if order is None else _lies_in(x, order)):
        return x
    with _on_callers_stream(x):
        if order is None:
            return x.detach().contiguous()
        if order == _CHANNELS_LAST:
            return x.detach().contiguous(memory_format=torch.channels_last)
        # ExecuTorch takes no tensor in another order; as it only looks at the bytes, the shape can stay.
        return x.detach().permute(order).contiguous().view(x.shape)


def _on_callers_stream(x: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Copy on the stream on which the engine will read, so that neither waits nor overtakes the other."""
    handle = _loader.native().get_caller_stream() if x.is_cuda else None
    if handle is None:
        return contextlib.nullcontext()  # without a choice the delegate follows PyTorch's current stream
    stream = torch.cuda.ExternalStream(handle, device=x.device)  # type: ignore[no-untyped-call]
    return torch.cuda.stream(stream)


def install(runtime: Any) -> None:
    """Let ``executorch.runtime`` give programs with TensorRT engines whose methods convert their inputs.

    Other programs, and ExecuTorch's classes themselves, stay as they are. Doing it again changes nothing. Where
    ExecuTorch's classes are not as expected, one log line says so and nothing is changed.
    """
    try:
        if not hasattr(runtime.Runtime.load_program, _MARK):
            _check_classes(runtime)
            runtime.Runtime.load_program = _loading(runtime.Runtime.load_program, _program_class(runtime))
    except Exception as error:
        _step_aside("Memory layouts of inputs are not converted by this ExecuTorch", error)


def _check_classes(runtime: Any) -> None:
    for (owner, name), expected in _PARAMETERS.items():
        found = list(inspect.signature(getattr(getattr(runtime, owner), name)).parameters)
        if found[: len(expected)] != expected:
            raise TypeError(f"{owner}.{name} takes {found}, but {expected} is expected")


def _program_class(runtime: Any) -> Any:
    """Return the class of programs with engines, a `Program` whose methods convert their inputs."""

    class Method(runtime.Method):  # type: ignore[misc]
        _tensorrt_input_orders: Sequence[Order | None]

        def execute(self, inputs: Sequence[Any]) -> Sequence[Any]:
            outputs: Sequence[Any] = super().execute(with_layouts(inputs, self._tensorrt_input_orders))
            return outputs

    class Program(runtime.Program):  # type: ignore[misc]
        _tensorrt_input_orders: Mapping[str, Sequence[Order | None]]

        def load_method(self, name: str) -> Any:
            method = super().load_method(name)
            orders = self._tensorrt_input_orders.get(name)
            if orders is not None and type(method) is runtime.Method:
                method._tensorrt_input_orders = orders
                method.__class__ = Method
            return method

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
        _prepare(program, data, program_class)
        return program

    setattr(load_program, _MARK, True)
    return load_program


def _prepare(program: Any, data: Any, program_class: Any) -> None:
    """Make a program with engines one whose methods convert. The file was just read, so it is read again now."""
    if not _wanted() or type(program) is not program_class.__base__:
        return
    try:
        content = map_file(data) if isinstance(data, str | Path) else memoryview(program._data)
        orders = read_input_orders(content, _loader.BACKEND_NAME)
    except Exception as error:
        _step_aside("The memory layouts that a program expects cannot be read, so its inputs are not converted", error)
        return
    if orders:
        program._tensorrt_input_orders = orders
        program.__class__ = program_class


def _wanted() -> bool:
    return os.environ.get(SWITCH_VARIABLE, "").strip().lower() not in {"0", "false", "no"}


@functools.cache
def _warn_once(text: str) -> None:
    _LOGGER.warning("%s", text)


def _step_aside(text: str, error: Exception) -> None:
    _warn_once(f"{text} ({error}). Give tensors in the program's layout: call .contiguous().")
