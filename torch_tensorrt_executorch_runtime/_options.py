"""The delegate's options for the whole process. Options of one load or one program take precedence."""

from __future__ import annotations

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._errors import DelegateError, OptionError

__all__ = ["get_option", "set_option"]

OptionValue = bool | int | str

_LONGEST_NAME = 63  # ExecuTorch's fields, less the terminating zero
_LONGEST_TEXT = 255
_INT_RANGE = range(-(2**31), 2**31)
_INVALID_ARGUMENT = 0x12
_NOT_FOUND = 0x20


def set_option(name: str, value: OptionValue) -> None:
    """Set a process-wide option of the delegate. Methods that are loaded later see it.

    Args:
        name: One of the options in the documentation, such as ``"use_cuda_graphs"``.
        value: ``bool``, ``int`` (32 bits) or ``str`` (at most 255 bytes), as the option asks for.

    Raises:
        OptionError: The option is unknown, or the value has the wrong type or size.
        NotRegisteredError: The environment switches the delegate off.
    """
    module = _loader.native()
    get_option(name)  # the delegate skips unknown names, as ExecuTorch asks; a person wants to hear of a slip
    _check_value(name, value)
    code = module.set_option(name, value)
    if code == _INVALID_ARGUMENT:
        raise OptionError(f"Option {name!r} does not take {value!r} ({type(value).__name__}). {_expected(name)}")
    if code != 0:
        raise DelegateError(f"Option {name!r} could not be set: ExecuTorch error {code:#x}; see its log for the cause.")


def get_option(name: str) -> OptionValue:
    """Say what a process-wide option of the delegate is set to.

    Args:
        name: One of the options in the documentation.

    Raises:
        OptionError: The option is unknown.
        NotRegisteredError: The environment switches the delegate off.
    """
    module = _loader.native()
    if not 0 < len(name.encode()) <= _LONGEST_NAME:
        raise OptionError(f"{name!r} is not an option: a name has 1 to {_LONGEST_NAME} bytes.")
    code, value = module.get_option(name)
    if code in (_INVALID_ARGUMENT, _NOT_FOUND):
        raise OptionError(f"{name!r} is not an option of the delegate; the documentation lists them.")
    if code != 0:
        raise DelegateError(
            f"Option {name!r} could not be read: ExecuTorch error {code:#x}; see its log for the cause."
        )
    result: OptionValue = value
    return result


def _check_value(name: str, value: OptionValue) -> None:
    if isinstance(value, str):
        if len(value.encode()) > _LONGEST_TEXT:
            raise OptionError(f"The text for option {name!r} has more than the {_LONGEST_TEXT} bytes that fit.")
    elif isinstance(value, int):  # bool is one too
        if value not in _INT_RANGE:
            raise OptionError(f"{value} for option {name!r} does not fit in 32 bits; give a large number as a string.")
    else:
        raise OptionError(f"Option {name!r} was given {type(value).__name__}; expected bool, int or str.")


def _expected(name: str) -> str:
    return f"It is {get_option(name)!r} now; give a value of the same kind."
