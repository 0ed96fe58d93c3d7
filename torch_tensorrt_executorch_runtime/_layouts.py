"""Brings the tensors of Python callers to the memory layout that a program expects.

ExecuTorch 1.5 copies or shares the bytes of an input as they lie in memory. It takes a tensor in ``channels_last``
layout for a program that expects the default one, and the reverse, and computes with the wrong elements; the delegate
cannot see it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_tensorrt_executorch_runtime._boundary import Order
from torch_tensorrt_executorch_runtime._current_stream import keep_for, stream_to_follow

__all__ = ["with_layouts"]

_CHANNELS_LAST = (0, 2, 3, 1)


def with_layouts(inputs: Sequence[Any], orders: Sequence[Order | None]) -> Sequence[Any]:
    """Return the inputs with every tensor in the order of dimensions that the program expects.

    What lies right already is passed as it is, and the whole sequence when all of it does. What does not fit the
    program at all is left to ExecuTorch to refuse.

    Args:
        inputs: What the caller gave.
        orders: One for each input of the program, as a `Boundary` has them.
    """
    if isinstance(inputs, Tensor):
        inputs = (inputs,)  # as ExecuTorch takes it
    if all(map(_lies_right, inputs, orders)):
        return inputs
    return [*map(_converted, inputs, orders), *inputs[len(orders) :]]


def _lies_right(x: Any, order: Order | None) -> bool:
    return not isinstance(x, Tensor) or (x.is_contiguous() if order is None else _lies_in(x, order))


def _lies_in(x: Tensor, order: Order) -> bool:
    if x.dim() != len(order):
        return True
    return order == _CHANNELS_LAST and x.is_contiguous(memory_format=torch.channels_last)


def _converted(x: Any, order: Order | None) -> Any:
    if _lies_right(x, order):
        return x
    stream = stream_to_follow(x.device.index) if x.is_cuda else None
    if stream is None:
        return _copied(x.detach(), order)
    keep_for(stream, [x])
    with torch.cuda.stream(stream):  # where the engine will read it
        return _copied(x.detach(), order)


def _copied(x: Tensor, order: Order | None) -> Tensor:
    if order is None:
        return x.contiguous()
    if order == _CHANNELS_LAST:
        return x.contiguous(memory_format=torch.channels_last)
    # ExecuTorch takes no tensor in another order; as it only looks at the bytes, the shape can stay.
    return x.permute(order).contiguous().view(x.shape)
