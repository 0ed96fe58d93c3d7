"""Clocks: times of calls, in turns, and what they come to."""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from torch_tensorrt_executorch_runtime._errors import DelegateError
from torch_tensorrt_executorch_runtime.cli._methods import first_line

__all__ = ["Caller", "Contender", "calls_per_second", "summarize", "take_turns"]

_BLOCK = 25  # calls in one turn: short, so that a change of the GPU's clocks meets everybody alike
_SETTLE = 3  # calls at the start of a turn that do not count: the other contender's work is still in the caches
_RATE_TURNS = 3


class Contender(Protocol):
    """Something that can be called again and again."""

    def latencies(self, calls: int) -> list[float]:
        """Return the microseconds of each call, from its start until its work is done."""

    def total(self, calls: int) -> float:
        """Return the microseconds of all calls together, with one wait behind them."""


class Caller:
    """A loaded method as its user calls it from Python.

    Args:
        execute: Calls the method.
        inputs: Its tensors.
        wait: Waits until the work of all calls is done; None where a call has done so itself.
    """

    def __init__(
        self, execute: Callable[[Sequence[Any]], Any], inputs: Sequence[Any], wait: Callable[[], None] | None
    ) -> None:
        self._execute = execute
        self._inputs = inputs
        self._wait = wait
        self.calls = 0

    def latencies(self, calls: int) -> list[float]:
        """Return the microseconds of each call, from its start until its work is done."""
        execute, inputs, wait, clock = self._execute, self._inputs, self._wait, time.perf_counter_ns
        times = []
        with self._counted(calls):
            for _ in range(calls):
                start = clock()
                execute(inputs)
                if wait is not None:
                    wait()
                times.append((clock() - start) / 1e3)
        return times

    def total(self, calls: int) -> float:
        """Return the microseconds of all calls together, with one wait behind them."""
        execute, inputs = self._execute, self._inputs
        with self._counted(calls):
            start = time.perf_counter_ns()
            for _ in range(calls):
                execute(inputs)
            if self._wait is not None:
                self._wait()
            return (time.perf_counter_ns() - start) / 1e3

    @contextlib.contextmanager
    def _counted(self, calls: int) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise DelegateError(f"The call failed: {first_line(error)}. The log above has the cause.") from error
        self.calls += calls


def take_turns(contenders: Mapping[str, Contender], calls: int) -> dict[str, list[float]]:
    """Return the latencies of ``calls`` calls of every contender; they take turns in short blocks."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    with _no_collector():
        for start in range(0, calls, _BLOCK):
            for name, contender in contenders.items():
                contender.latencies(_SETTLE)
                times[name] += contender.latencies(min(_BLOCK, calls - start))
    return times


def calls_per_second(contenders: Mapping[str, Contender], calls: int) -> dict[str, float]:
    """Return how many calls per second every contender makes when none waits for the one before it."""
    each = math.ceil(calls / _RATE_TURNS)
    spent = dict.fromkeys(contenders, 0.0)
    with _no_collector():
        for _ in range(_RATE_TURNS):
            for name, contender in contenders.items():
                spent[name] += contender.total(each)
    return {name: each * _RATE_TURNS / (microseconds / 1e6) for name, microseconds in spent.items()}


def summarize(times: Sequence[float]) -> dict[str, float]:
    """Describe a distribution; a percentile is a value that was measured (nearest rank)."""
    ordered = sorted(times)
    ranks = {f"p{share}": ordered[math.ceil(share / 100 * len(ordered)) - 1] for share in (50, 90, 99)}
    return {
        "calls": len(ordered),
        "min": ordered[0],
        **ranks,
        "max": ordered[-1],
        "mean": statistics.fmean(ordered),
        "std": statistics.pstdev(ordered),
    }


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    """Keep Python's garbage collector from adding to some of the times."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
