"""Starts workers, waits until they are ready and takes turns with them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from .timing import Contender


class Worker:
    """A process of `comparison.worker`; it prepares while others do."""

    def __init__(self, kind: str, model: str, folder: Path, log: TextIO, *, own_torch: bool = True) -> None:
        self.kind, self.model = kind, model
        # Without PYTHONPATH a machine may have another PyTorch, with the Triton that it was made with.
        here = Path(__file__).parents[1]
        paths = [str(here), str(here.parent / "tests")]
        if own_torch and "PYTHONPATH" in os.environ:
            paths.append(os.environ["PYTHONPATH"])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "comparison.worker", kind, model, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def ready(self, until: float) -> dict[str, Any]:
        """Return what the worker says of itself, at the latest at a time of `time.monotonic`.

        Raises:
            RuntimeError: It failed, or did not get ready in time.
        """
        answer: dict[str, Any] = self._answer(until)
        if "ready" not in answer:
            raise RuntimeError(answer["failed"])
        return dict(answer["ready"])

    def contender(self) -> Contender:
        """Return the worker as one that takes turns."""

        def block(calls: int) -> list[float]:
            assert self._process.stdin
            self._process.stdin.write(f"{calls}\n")
            self._process.stdin.flush()
            return list(self._answer(time.monotonic() + 20))

        return Contender(self.kind, block)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _answer(self, until: float) -> Any:
        """Read the next line of JSON; libraries may print other lines before it."""
        stream = self._process.stdout
        assert stream
        while True:
            if not select.select([stream], [], [], max(0.0, until - time.monotonic()))[0]:
                raise RuntimeError("it did not answer in time")
            line = stream.readline()
            if not line:
                raise RuntimeError(f"it ended with {self._process.wait()}")
            with contextlib.suppress(json.JSONDecodeError):
                return json.loads(line)
