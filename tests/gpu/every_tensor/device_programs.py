"""Loads the programs of a folder in Python and compares what they give."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.runtime import Runtime
from torch import Tensor
from torch.utils import _pytree as pytree

import torch_tensorrt_executorch_runtime as tter

from .programs import PROGRAMS, write

GPU = torch.device("cuda", 0)


class RefusedAtExport(Exception):
    """The program could not be exported; the text is the sentence that the exporter gave."""


@dataclass(frozen=True)
class Programs:
    """The folder of the programs; one that is missing is written."""

    folder: Path

    def load(self, name: str, method: str = "forward") -> Any:
        """Load one method of a program."""
        path = write(name, self.folder)
        refused = path.with_suffix(".refused")
        if refused.exists():
            raise RefusedAtExport(refused.read_text().strip())
        return Runtime.get().load_program(path).load_method(method)

    def example(self, name: str) -> tuple[Tensor, ...]:
        """Return the inputs that the program was exported with, on the host."""
        return PROGRAMS[name].example()

    def eager(self, name: str, inputs: Sequence[Tensor], *, seed: int = 0) -> list[Tensor]:
        """Return what eager PyTorch gives on the host."""
        with torch.no_grad():
            result = PROGRAMS[name].module(seed)(*(x.clone() for x in inputs))
        return list(pytree.tree_leaves(result))


def on_gpu(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copy tensors to the GPU and wait until they are there; their layout is kept."""
    copies = [x.to(GPU) for x in tensors]
    torch.cuda.synchronize()
    return copies


def differing(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> int:
    """Count the elements that differ; all of a tensor's when its shape or type does."""
    torch.cuda.synchronize()
    count = abs(len(actual) - len(expected))
    for got, want in zip(actual, expected, strict=False):
        if got.shape != want.shape or got.dtype != want.dtype:
            count += max(1, want.numel())
        else:
            count += int((got.cpu() != want.cpu()).sum())
    return count


@contextlib.contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Count what the engines that are loaded now do inside of the block; the numbers are there when it ends."""
    names = ("calls", "plain_calls", "replayed_calls", "staged_inputs", "staged_outputs", "copied_bytes", "host_waits")
    before = {name: sum(getattr(engine, name) for engine in tter.stats()) for name in names}
    counts: dict[str, int] = {}
    yield counts
    counts.update({name: sum(getattr(engine, name) for engine in tter.stats()) - before[name] for name in names})
