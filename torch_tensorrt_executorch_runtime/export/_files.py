"""Files that appear together and complete, or not at all."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime._files import check_path

__all__ = ["NewFiles", "check_path"]


class NewFiles:
    """A ``.pte`` file and the files that belong to it, in a temporary folder until :meth:`publish`.

    Args:
        target: Where the ``.pte`` will be. The temporary folder is made beside it, so that renaming suffices.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folder = target.absolute().parent
        self._names: list[str] = []

    def __enter__(self) -> NewFiles:
        self._temporary = Path(tempfile.mkdtemp(prefix=f".{self._target.name}.", dir=self._folder))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def program(self) -> Path:
        """Where to write the program for now."""
        return self._temporary / self._target.name

    @property
    def stem(self) -> str:
        """The program's name without its ending."""
        return self._target.stem

    def add(self, name: str) -> Path:
        """Return where to write a further file that will be called ``name``."""
        self._names.append(name)
        return self._temporary / name

    def add_data(self, tag: str, *, alone: bool, keep_name: bool) -> Path:
        """Return where to write a ``.ptd`` file.

        Backends choose fixed names for these, so two models in one folder would overwrite each other's weights. The
        name is free, because programs find data by the keys inside: it is the model's, or the backend's when
        ``keep_name`` asks for it.
        """
        tag = tag.removesuffix(".ptd")
        if keep_name:
            name = f"{tag}.ptd"
        else:
            name = f"{self.stem}.ptd" if alone else f"{self.stem}.{re.sub(r'[^A-Za-z0-9_.-]', '_', tag)}.ptd"
        return self.add(name)

    def publish(self) -> list[Path]:
        """Move all files to their places, the program last.

        Returns:
            The program, then the other files.

        Raises:
            ExportError: A file of another model is in the way; nothing was moved.
        """
        for name in self._names:
            self._refuse_foreign(name)
        for name in self._names:
            (self._temporary / name).replace(self._folder / name)
        self.program.replace(self._target)
        return [self._target, *(self._target.parent / name for name in self._names)]

    def _refuse_foreign(self, name: str) -> None:
        present = self._folder / name
        if not name.endswith(".ptd") or not present.exists() or name.startswith(f"{self.stem}."):
            return
        if present.read_bytes() == (self._temporary / name).read_bytes():
            return
        others = sorted(path.name for path in self._folder.glob("*.pte") if path.name != self._target.name)
        if self._target.exists() and not others:
            return
        raise ExportError(
            f"{present} holds the weights of another program ({', '.join(others) or 'unknown'}), which would be "
            f"overwritten. Write {self._target.name} to a folder of its own."
        )
