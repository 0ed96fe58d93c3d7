"""The delegate's options for the whole process."""

from __future__ import annotations

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._errors import DelegateError, OptionError

__all__ = ["get_option", "set_option"]

OptionValue = bool | int | str

_PROCESS_OPTIONS: dict[str, type] = {
    "tensorrt_library": str,
    "runtime_cache_folder": str,
    "use_cuda_graphs": bool,
    "use_shared_activation_scratch": bool,
    "device_memory_budget": str,
}
_LOAD_OPTIONS = ("use_shared_engines", "weight_streaming_budget")
_LONGEST_TEXT = 255  # bytes: ExecuTorch's field, less the terminating zero


def set_option(name: str, value: OptionValue) -> None:
    """Set an option of the delegate for this process. What is loaded later sees it.

    Args:
        name: ``"tensorrt_library"`` (str): TensorRT library files to use, separated by ``:``; an empty text goes back
            to the search. It takes precedence over the environment variable ``TENSORRT_EXECUTORCH_LIBRARY``.
            ``"runtime_cache_folder"`` (str): where compiled kernels are kept; ``"off"`` keeps none, an empty text
            goes back to the default. ``"use_cuda_graphs"`` (bool): replay engines as CUDA graphs; False is a veto over
            what files ask for. ``"use_shared_activation_scratch"`` (bool): let the engines of a GPU take turns in one
            block of scratch memory. ``"device_memory_budget"`` (str): bytes, in decimal digits, that the engines of
            this process may hold on each GPU; a load that would exceed it is refused with an itemised sentence; an
            empty text takes the budget back.
        value: A value of the option's type; a text has at most 255 bytes.

    Raises:
        OptionError: The option is unknown, or the value has the wrong type or size.
        NotRegisteredError: The environment switches the delegate off.
    """
    module = _loader.native()
    _check_name(name)
    _check_value(name, value)
    code = module.set_option(name, value)
    if code != 0:
        raise DelegateError(f"Option {name!r} was refused with ExecuTorch error {code:#x}; its log has the cause.")


def get_option(name: str) -> OptionValue:
    """Say what an option of the delegate is set to in this process.

    Args:
        name: As in `set_option`.

    Raises:
        OptionError: The option is unknown.
        NotRegisteredError: The environment switches the delegate off.
    """
    module = _loader.native()
    _check_name(name)
    code, value = module.get_option(name)
    if code != 0:
        raise DelegateError(f"Option {name!r} was refused with ExecuTorch error {code:#x}; its log has the cause.")
    result: OptionValue = value
    return result


def _check_name(name: str) -> None:
    if name in _LOAD_OPTIONS:
        raise OptionError(
            f"{name!r} belongs to one load and not to the process. Give it to Module::load in C++; "
            "a weight streaming budget can be given to torch_tensorrt_executorch_runtime.export.save as well."
        )
    if name not in _PROCESS_OPTIONS:
        known = ", ".join(_PROCESS_OPTIONS)
        raise OptionError(f"{name!r} is not an option of the delegate. The options of the process are: {known}.")


def _check_value(name: str, value: OptionValue) -> None:
    expected = _PROCESS_OPTIONS[name]
    if type(value) is not expected:
        raise OptionError(f"Option {name!r} was given {value!r}, but it takes a value of type {expected.__name__}.")
    if isinstance(value, str) and len(value.encode()) > _LONGEST_TEXT:
        raise OptionError(
            f"The text for option {name!r} has {len(value.encode())} bytes, but only {_LONGEST_TEXT} fit. "
            "Use a shorter path, or the environment variable TENSORRT_EXECUTORCH_LIBRARY."
        )
