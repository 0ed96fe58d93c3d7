"""Inputs for a run: from ``.npy`` or ``.pt`` files, or made up from what the program says of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch_tensorrt_executorch_runtime._errors import DelegateError, kind_of
from torch_tensorrt_executorch_runtime.cli import _output
from torch_tensorrt_executorch_runtime.inspect import MethodInfo, ValueInfo

__all__ = ["make_inputs"]

_TORCH_SUFFIXES = (".pt", ".pth")
_LARGEST_RANDOM_INTEGER = 10  # small, so that an index into a table of any size is likely to be valid


def make_inputs(method: MethodInfo, files: Sequence[Path], *, seed: int) -> list[Any]:
    """Return one torch tensor per input: the files first, in order, random ones for the rest.

    Args:
        method: From ``inspect_program``.
        files: ``.npy`` files, or ``.pt`` files that hold one tensor. A bfloat16 input takes a float32 ``.npy`` file,
            because NumPy has no bfloat16.
        seed: Of the random numbers: floating point inputs are normal, integers 0 to 9, bools a coin's.

    Raises:
        DelegateError: A file is missing, cannot be read or does not fit its input.
    """
    if len(files) > len(method.inputs):
        raise DelegateError(
            f"{len(files)} input files were given, but method {method.name!r} has {len(method.inputs)} inputs."
        )
    import torch  # noqa: PLC0415

    generator = torch.Generator().manual_seed(seed)
    given = [_read(path, value, index) for index, (path, value) in enumerate(zip(files, method.inputs, strict=False))]
    rest = range(len(given), len(method.inputs))
    return given + [_random(method.inputs[index], index, generator) for index in rest]


def _read(path: Path, value: ValueInfo, index: int) -> Any:
    import torch  # noqa: PLC0415

    _require_tensor(value, index)
    if not path.is_file():
        raise DelegateError(f"The input file {path} does not exist.")
    tensor = _read_tensor(path) if path.suffix in _TORCH_SUFFIXES else _read_array(path)
    found = str(tensor.dtype).removeprefix("torch.")
    widened = path.suffix not in _TORCH_SUFFIXES and value.dtype == "bfloat16"
    expected = "float32" if widened else value.dtype
    if found != expected:
        raise DelegateError(f"{path} holds {found}, but input {index} takes {expected}.")
    if not _fits(tuple(tensor.shape), value):
        kind = "at most " if value.dynamic else ""
        raise DelegateError(
            f"{path} has the shape {_output.describe_shape(tuple(tensor.shape))}, but input {index} takes "
            f"{kind}{_output.describe_shape(value.shape)}."
        )
    return tensor.to(getattr(torch, value.dtype))


def _read_array(path: Path) -> Any:
    import numpy  # noqa: PLC0415
    import torch  # noqa: PLC0415

    try:
        return torch.from_numpy(numpy.load(path, allow_pickle=False))
    except (ValueError, OSError, EOFError, TypeError) as error:  # the last: a type that torch does not have
        raise DelegateError(f"{path} cannot be read as a .npy file: {error}") from error


def _read_tensor(path: Path) -> Any:
    import torch  # noqa: PLC0415

    try:
        tensor = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the unpickling of a foreign file raises
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DelegateError(f"{path} cannot be read as a file of torch.save: {reason[0]}") from error
    if not isinstance(tensor, torch.Tensor):
        raise DelegateError(f"{path} holds {kind_of(tensor)}, but one tensor is expected. Save it alone.")
    return tensor.detach()


def _fits(shape: tuple[int, ...], value: ValueInfo) -> bool:
    if len(shape) != len(value.shape):
        return False
    pairs = zip(shape, value.shape, strict=True)
    return all(size <= largest if value.dynamic else size == largest for size, largest in pairs)


def _random(value: ValueInfo, index: int, generator: Any) -> Any:
    import torch  # noqa: PLC0415

    _require_tensor(value, index)
    dtype = getattr(torch, value.dtype, None)
    if dtype is None:
        raise DelegateError(f"Input {index} has the type {value.dtype}, for which no random values can be made.")
    if dtype.is_floating_point:
        return torch.randn(value.shape, generator=generator).to(dtype)
    largest = 2 if dtype == torch.bool else _LARGEST_RANDOM_INTEGER
    return torch.randint(0, largest, value.shape, generator=generator).to(dtype)


def _require_tensor(value: ValueInfo, index: int) -> None:
    if value.kind != "tensor":
        raise DelegateError(
            f"Input {index} is a value of the kind {value.kind}, but this command only makes tensors. "
            "Run the program from Python."
        )
