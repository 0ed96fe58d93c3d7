"""Says what a long export is doing: a progress bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from torch_tensorrt_executorch_runtime.export._torch_tensorrt import tensorrt

__all__ = ["engine_built", "engine_packed", "engine_reused", "monitor", "show_progress", "stage"]

_LOGGER = logging.getLogger("torch_tensorrt_executorch_runtime.export")
_BAR: contextvars.ContextVar[_Bar | None] = contextvars.ContextVar("progress", default=None)


class _Bar:
    """One line on the terminal: the present stage, and the steps of the engine that is being built."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("", total=None)
        self.engines = 0

    def stage(self, text: str) -> None:
        self._progress.update(self._task, description=text, total=None, completed=0, refresh=True)

    def phase(self, text: str, steps: int) -> None:
        self._progress.update(self._task, description=text, total=max(steps, 1), completed=0)

    def step(self, step: int) -> None:
        self._progress.update(self._task, completed=step + 1)


@contextlib.contextmanager
def show_progress(enabled: bool | None = None) -> Iterator[None]:
    """Show the export's progress while the block runs.

    Args:
        enabled: True: a bar, False: log lines only, None: a bar when standard error is a terminal.
    """
    if not (sys.stderr.isatty() if enabled is None else enabled):
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        token = _BAR.set(_Bar(progress))
        try:
            yield
        finally:
            _BAR.reset(token)


def stage(text: str) -> None:
    """Name the stage that begins."""
    bar = _BAR.get()
    if bar is not None:
        bar.stage(text)
    _LOGGER.debug("%s", text)


def engine_built(*, layers: int, size_bytes: int, seconds: float) -> None:
    """Report a finished engine in one line."""
    _LOGGER.info("Built a TensorRT engine: %d layers, %.1f MB, %.2f s", layers, size_bytes / 1e6, seconds)
    _count("engine %d built")


def engine_packed(*, size_bytes: int) -> None:
    """Report an engine that was compiled before the export, in one line."""
    _LOGGER.info("Took over a compiled TensorRT engine: %.1f MB", size_bytes / 1e6)
    _count("engine %d taken over")


def engine_reused(*, size_bytes: int) -> None:
    """Report a part of the model that is equal to an earlier one, in one line."""
    _LOGGER.info("Reused the TensorRT engine of an equal part: %.1f MB", size_bytes / 1e6)


def _count(text: str) -> None:
    bar = _BAR.get()
    if bar is not None:
        bar.engines += 1
        bar.stage(text % bar.engines)


def monitor() -> Any:
    """Return a TensorRT progress monitor that drives the bar, or None when there is no bar."""
    bar = _BAR.get()
    return None if bar is None else _monitor_class()(bar)


def _monitor_class() -> Any:
    trt = tensorrt()

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc, name-defined]
        """Shows the outermost phase; TensorRT calls it from its own threads."""

        def __init__(self, bar: _Bar) -> None:
            super().__init__()
            self._bar = bar
            self._outermost: str | None = None

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            if parent_phase is None:
                self._outermost = phase_name
                self._bar.phase(f"engine {self._bar.engines + 1}: {phase_name}", num_steps)

        def phase_finish(self, phase_name: str) -> None:
            if phase_name == self._outermost:
                self._outermost = None

        def step_complete(self, phase_name: str, step: int) -> bool:
            if phase_name == self._outermost:
                self._bar.step(step)
            return True

    return Monitor
