"""Times contenders in short turns, so that a change of clocks or of the machine's load meets all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

ROUNDS = 8
CALLS = 25
WARM_UP = 5

Block = Callable[[int], list[float]]


@dataclass
class Contender:
    """One way to run a model: ``block(n)`` makes n calls, each followed by a wait, and returns microseconds."""

    name: str
    block: Block
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.times)


def timed(
    call: Callable[[], object],
    wait: Callable[[], object],
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Block:
    """Return a block of a call in this process and the wait that ends it.

    ``around`` is entered once for a block, as an application chooses its stream once for its loop.
    """

    def block(calls: int) -> list[float]:
        with around():
            for _ in range(WARM_UP):
                call()
            wait()
            times = []
            for _ in range(calls):
                start = time.perf_counter()
                call()
                wait()
                times.append((time.perf_counter() - start) * 1e6)
        return times

    return block


def take_turns(contenders: Sequence[Contender], *, rounds: int = ROUNDS, calls: int = CALLS) -> dict[str, str]:
    """Time every contender in every round; return those that failed on the way with the reason."""
    failed: dict[str, str] = {}
    for _ in range(rounds):
        for contender in contenders:
            if contender.name in failed:
                continue
            try:
                contender.times += contender.block(calls)
            except Exception as error:
                failed[contender.name] = f"{type(error).__name__}: {error}"
    return failed
