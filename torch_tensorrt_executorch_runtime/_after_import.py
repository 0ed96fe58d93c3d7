"""Does something right after another module was imported, without importing it."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["call_after_import"]

_Action = Callable[[ModuleType], None]


def call_after_import(name: str, action: _Action) -> None:
    """Call ``action`` with the module ``name``: now when it is there, and each time that it is imported later.

    Args:
        name: The module's full name. It is not imported by this.
        action: Must not raise: it would fail the import of that module.
    """
    sys.meta_path.insert(0, _Finder(name, action))
    if name in sys.modules:
        action(importlib.import_module(name))  # another thread may be importing it; this waits for the end of that


class _Finder:
    """Finds a module as the finders behind it do, and hands it to an action when it has run."""

    def __init__(self, name: str, action: _Action) -> None:
        self._name = name
        self._action = action

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Answer for one module only; the import system asks the next finder for the others."""
        if name != self._name:
            return None
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == self._name:  # a loader may serve several modules
                self._action(module)

        # On the loader of this import, so that its class and what else it can do stay as they are.
        with contextlib.suppress(AttributeError):
            loader.exec_module = exec_module
