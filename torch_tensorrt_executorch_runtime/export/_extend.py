"""Routes ``torch_tensorrt.save(output_format="executorch")`` through this package, on request and reversibly."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from torch_tensorrt_executorch_runtime.export._keywords import SaveKeywords, check_keywords
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt
from torch_tensorrt_executorch_runtime.export.save import save_program

__all__ = ["ExtendedTorchTensorRT", "extend_torch_tensorrt"]

_LOCK = threading.Lock()


@dataclass
class _Extension:
    """Torch-TensorRT's own function while it is replaced, and how many handles want it replaced."""

    original: Callable[..., Any] | None = None
    holders: int = 0


_EXTENSION = _Extension()


class ExtendedTorchTensorRT:
    """The extension while it is in force. Leave the ``with`` block, or call :meth:`restore`, to take it back."""

    def __init__(self) -> None:
        self._active = True

    def restore(self) -> None:
        """Take the extension back; with several holders, the last one does it. Doing it again changes nothing."""
        with _LOCK:
            if not self._active:
                return
            self._active = False
            _EXTENSION.holders -= 1
            if _EXTENSION.holders == 0:
                torch_tensorrt: Any = load_torch_tensorrt()
                torch_tensorrt.save, _EXTENSION.original = _EXTENSION.original, None

    def __enter__(self) -> ExtendedTorchTensorRT:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()


def extend_torch_tensorrt() -> ExtendedTorchTensorRT:
    """Make ``torch_tensorrt.save(..., output_format="executorch")`` use :func:`save` of this package.

    Every other output format goes to Torch-TensorRT as before. ``.ptd`` files keep the names that their backends
    chose, as Torch-TensorRT's documentation says.

    Returns:
        A handle: a context manager that takes the extension back at its end, with a method ``restore``.

    Example:
        >>> with extend_torch_tensorrt():
        ...     torch_tensorrt.save(module, "model.pte", output_format="executorch", arg_inputs=(x,))  # doctest: +SKIP
    """
    torch_tensorrt: Any = load_torch_tensorrt()
    with _LOCK:
        if _EXTENSION.original is None:
            _EXTENSION.original = torch_tensorrt.save
            torch_tensorrt.save = _extended(torch_tensorrt.save)
        _EXTENSION.holders += 1
    return ExtendedTorchTensorRT()


def _extended(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def save(module: Any, file_path: str = "", **options: Any) -> Any:
        if options.get("output_format") != "executorch":
            return original(module, file_path, **options)
        check_keywords("save", options, SaveKeywords)
        return save_program(module, file_path, options, keep_data_names=True)

    return save
