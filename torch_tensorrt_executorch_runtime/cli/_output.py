"""How the commands print: tables for people, JSON for programs, one sentence on stderr for an error."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["calm_loggers", "console", "describe_shape", "describe_size", "fail", "print_json", "table"]

_CHATTY_LOGGERS = (
    "torch.export",
    "torch._library.opaque_object",
    "torch._opaque_base",
    "torch.utils._pytree",
    "torch_tensorrt",
)
_WIDTH_OF_A_FILE = 200  # a pipe or a log has no width of its own, and folded tables are hard to search


def calm_loggers() -> None:
    """Keep what torch and its companions log while they are imported off the screen; their errors still show."""
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


def console() -> Console:
    """Return the console for standard output."""
    width = None if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    return Console(highlight=False, markup=False, soft_wrap=True, width=width)


def table(*columns: str) -> Table:
    """Return an empty table without lines."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        result.add_column(column, overflow="fold")
    return result


def print_json(document: Any) -> None:
    """Print a document for programs."""
    print(json.dumps(document, indent=2))


def fail(message: str) -> None:
    """Print one line on standard error."""
    print(f"trt-executorch: {' '.join(message.split())}", file=sys.stderr)


def describe_size(size_bytes: int) -> str:
    """Write a size for people: ``21.6 MB``."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def describe_shape(shape: tuple[int, ...]) -> str:
    """Write a shape: ``[1, 3, 224, 224]``; a dynamic size is ``?``."""
    return f"[{', '.join('?' if size < 0 else str(size) for size in shape)}]"
