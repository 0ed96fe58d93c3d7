"""Operators that TensorRT has no converter for, written with those that it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_tensorrt_executorch_runtime.export._attention_decomposition import attention_decomposition

__all__ = ["add_decompositions"]

_aten = torch.ops.aten


def _exp2(x: Tensor) -> Any:
    return torch.pow(2.0, x)


def _eye(rows: int, columns: int, dtype: torch.dtype | None) -> Tensor:
    # PyTorch's own compares numbers of 8 bits, which engines do not have.
    is_one = torch.arange(rows).unsqueeze(-1) == torch.arange(columns)
    return is_one.to(torch.get_default_dtype() if dtype is None else dtype)


def _square_eye(n: int, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _eye(n, n, dtype)


def _rectangular_eye(n: int, m: int, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _eye(n, m, dtype)


def _keeping_dimensions(spread: Callable[..., Any]) -> Callable[..., Any]:
    """Return what computes a spread and keeps its dimensions by a view, which ``spread`` itself does by an alias."""

    def compute(
        x: Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
    ) -> Any:
        result = spread(x, dim, correction=correction)
        for kept in sorted({d % x.dim() for d in dim or range(x.dim())}) if keepdim else ():
            result = result.unsqueeze(kept)
        return result

    return compute


def _with_mean(spread: Any) -> Callable[..., Any]:
    """Return what computes a spread and the mean, each by an operator of its own."""

    def compute(
        x: Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
    ) -> Any:
        mean = _aten.mean.dim(x, dim, keepdim)
        return spread(x, dim, correction=correction, keepdim=keepdim), mean

    return compute


def _adaptive_max_pool2d(x: Tensor, output_size: Sequence[int]) -> Any:
    height, width = x.shape[-2:]
    rows, columns = output_size
    whole = all(isinstance(n, int) for n in (height, width)) and height % rows == 0 and width % columns == 0
    if not whole:
        return NotImplemented
    kernel = [height // rows, width // columns]
    return _aten.max_pool2d_with_indices(x, kernel, kernel)


def _max_pool2d(  # noqa: PLR0917 - the operator's own arguments
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> Any:
    """Pad for the windows that ``ceil_mode`` adds, which converters do not take."""
    sizes = x.shape[-2:]
    given = (kernel_size, stride or kernel_size, padding, dilation)
    kernel, step, before, spread = map(_pair, given)
    if ceil_mode and x.is_floating_point() and all(isinstance(size, int) for size in sizes):
        missing = [_missing(*numbers) for numbers in zip(sizes, kernel, step, before, spread, strict=True)]
        if any(missing):
            x = _aten.constant_pad_nd(x, [0, missing[1], 0, missing[0]], float("-inf"))
        ceil_mode = False
    last = [spread, True] if ceil_mode else [] if spread == [1, 1] else [spread]
    return _aten.max_pool2d_with_indices(x, kernel, step, before, *last)[0]


def _avg_pool2d(  # noqa: PLR0917 - the operator's own arguments
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Take means of whole windows, and correct those by how many pixels PyTorch divides."""
    sizes = x.shape[-2:]
    known = x.dim() == 4 and x.is_floating_point() and all(isinstance(size, int) for size in sizes)
    if not known or not (ceil_mode or divisor_override):
        return NotImplemented
    kernel, step, before = map(_pair, (kernel_size, stride or kernel_size, padding))
    missing = [_missing(*numbers, 1) if ceil_mode else 0 for numbers in zip(sizes, kernel, step, before, strict=True)]
    if not any(missing) and divisor_override is None:
        return _aten.avg_pool2d(x, kernel, step, before, False, count_include_pad)
    (top, left), (down, right) = before, missing
    padded = _aten.constant_pad_nd(x, [left, left + right, top, top + down])
    means = _aten.avg_pool2d(padded, kernel, step)
    area = kernel[0] * kernel[1]
    if divisor_override is not None:
        return means * (area / divisor_override)
    rows, columns = (
        _counts(count, numbers, with_padding=count_include_pad)
        for count, *numbers in zip(means.shape[-2:], sizes, kernel, step, before, strict=True)
    )
    return (means.to(torch.float32) * (area / (rows.unsqueeze(-1) * columns))).to(x.dtype)


def _counts(count: int, numbers: Sequence[int], *, with_padding: bool) -> Tensor:
    """Return how many pixels each of ``count`` windows has in one direction."""
    size, kernel, step, before = numbers
    first, last = (0, size + 2 * before) if with_padding else (before, before + size)
    begin = torch.arange(count, dtype=torch.float32) * step
    return (begin + kernel).clamp(max=last) - begin.clamp(min=first)


def _pair(numbers: Sequence[int]) -> list[int]:
    return list(numbers) * 2 if len(numbers) == 1 else list(numbers)


def _missing(size: int, kernel: int, step: int, before: int, spread: int) -> int:
    """Return how many pixels the last window of ``ceil_mode`` reaches beyond the padding."""
    extent = spread * (kernel - 1) + 1
    windows = -(-(size + 2 * before - extent) // step) + 1
    if (windows - 1) * step >= size + before:
        windows -= 1  # a window must not begin in the padding behind
    return max((windows - 1) * step + extent - (size + 2 * before), 0)


_ALONE: dict[Any, Callable[..., Any]] = {
    _aten.adaptive_max_pool2d.default: _adaptive_max_pool2d,
    _aten.avg_pool2d.default: _avg_pool2d,
    _aten.exp2.default: _exp2,
    _aten.eye.default: _square_eye,
    _aten.eye.m: _rectangular_eye,
    _aten.max_pool2d.default: _max_pool2d,
    _aten.std_mean.correction: _with_mean(_aten.std.correction),
    _aten.var_mean.correction: _with_mean(_aten.var.correction),
}
_ATTENTION = _aten.scaled_dot_product_attention.default
_SPREADS = (_aten.std.correction, _aten.var.correction)


def add_decompositions(table: dict[Any, Callable[..., Any]]) -> None:
    """Add to a table for ``run_decompositions``, in which NotImplemented leaves an operator to whoever comes next."""
    table.update(_ALONE)
    table[_ATTENTION] = attention_decomposition(table.get(_ATTENTION))
    table.update({operator: _keeping_dimensions(table[operator]) for operator in _SPREADS if operator in table})
