"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

__all__ = ["check_path", "write_text"]


def check_path(path: str | os.PathLike[str]) -> Path:
    """Find out whether ``path`` can be written, before any work is done.

    Raises:
        OSError: It cannot; the text says why and what to do.
        ValueError: It is empty.
    """
    if not os.fspath(path):
        raise ValueError("The path is empty. Give the name of the file to write, such as 'model.pte'.")
    target = Path(path)
    folder = target.absolute().parent
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "This is a folder. Give the name of a file in it", str(target))
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "The folder does not exist. Create it first", str(folder))
    try:
        # Permissions alone do not tell: read-only file systems and root exist.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        text = f"The folder cannot be written ({error.strerror}). Choose another one"
        raise type(error)(error.errno, text, str(folder)) from error
    return target


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place and rename it: a reader sees the old file or the whole new one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
