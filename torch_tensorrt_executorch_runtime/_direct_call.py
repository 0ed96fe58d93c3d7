"""Calls a method that is one engine and nothing else without the way through ExecuTorch's Python bindings.

That way takes longer than to launch an engine's graph: it makes a string of every input's type, redirects the output
streams of C++ and describes every tensor anew. A method whose inputs repeat in shape is called directly instead, with
the same delegate, the same memory for its results and the same checks in the engine. Whatever is not as it was in the
call before goes the usual way, which also says what is wrong with it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_tensorrt_executorch_runtime import _loader

__all__ = ["DirectCall", "with_delegate"]

_LOGGER = logging.getLogger("torch_tensorrt_executorch_runtime")

_Signature = list[tuple[torch.Size, torch.device]]


def _never(_: Sequence[Any]) -> bool:
    return False


def with_delegate(load: Callable[[], Any]) -> tuple[Any, int | None]:
    """Load a method.

    Returns:
        What ``load`` gave, and the handle of the delegate that this brought; None when it brought none, or several.
    """
    before, _ = _loader.native().last_load()
    method = load()
    after, handle = _loader.native().last_load()
    return method, handle if after == before + 1 else None


@dataclass(frozen=True, slots=True)
class Way:
    """A direct way for inputs of one signature.

    ``run(inputs)`` is True after the engine wrote ``outputs``, which are the method's own memory. When it is False,
    nothing was done, as the inputs are of another kind. It raises a `RuntimeError` when the engine refused or failed;
    ExecuTorch's log has the cause.
    """

    signature: _Signature
    run: Callable[[Sequence[Any]], bool]
    outputs: Sequence[torch.Tensor]


class DirectCall:
    """The direct ways to one method; it must not outlive it.

    Hold ``lock`` from the call until the results are copied: they are in the method's own memory. Try ``last`` first,
    by yourself: one more function of Python would take about a tenth of a microsecond before every launch.
    """

    _MOST = 4
    """Programs are called with few shapes, or with ever new ones, for which nothing is prepared."""

    __slots__ = ("_handle", "_seen", "_ways", "last", "lock")

    def __init__(self, handle: int) -> None:
        self.lock = threading.RLock()
        self.last = Way([], _never, ())
        self._handle = handle
        self._seen: _Signature = []
        self._ways: list[Way] = []

    def run_another(self, inputs: Sequence[Any]) -> Sequence[torch.Tensor] | None:
        """Try the ways that were not the last one.

        Returns:
            The results in the method's own memory. None, and nothing was done, when the usual way must be gone.

        Raises:
            RuntimeError: The engine refused or failed; ExecuTorch's log has the cause.
        """
        last = self.last
        for way in self._ways:
            if way is not last and way.run(inputs):
                self.last = way
                return way.outputs
        return None

    def learn(self, method: Any, inputs: Sequence[Any]) -> None:
        """Prepare for inputs that went the usual way for the second time in a row.

        Args:
            method: ExecuTorch's binding of the method, just called.
            inputs: What it was called with.
        """
        if not all(type(x) is torch.Tensor for x in inputs):
            return
        signature = [(x.shape, x.device) for x in inputs]
        if signature != self._seen:
            self._seen = signature
        elif not any(way.signature == signature for way in self._ways):
            self.last = self._prepared(method, inputs, signature)
            self._ways = [self.last, *self._ways[: self._MOST - 1]]

    def _prepared(self, method: Any, inputs: Sequence[Any], signature: _Signature) -> Way:
        try:
            with torch.inference_mode(False):  # so that results can be used anywhere
                outputs = method.get_outputs(False)
            run = _loader.native().direct_call(self._handle, list(inputs), outputs, torch.Tensor)
        except Exception as error:
            _LOGGER.debug("Inputs of this kind go the usual way: %s", error)
            return Way(signature, _never, ())
        return Way(signature, run, outputs)
