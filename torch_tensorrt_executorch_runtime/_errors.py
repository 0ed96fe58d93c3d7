"""The exceptions of this package.

Each text says what was found, what was expected, and what to do.
"""

from __future__ import annotations

__all__ = [
    "BlobError",
    "DelegateCompatibilityError",
    "DelegateError",
    "ExportError",
    "NotRegisteredError",
    "OptionError",
    "ProgramError",
    "UnsupportedSourceError",
    "kind_of",
]


class DelegateCompatibilityError(ImportError):
    """The delegate cannot be registered with the ExecuTorch of this process."""


class DelegateError(RuntimeError):
    """Base of what this package raises once it is imported."""


class NotRegisteredError(DelegateError):
    """A function that needs the registered delegate was called while registration is switched off."""


class OptionError(DelegateError, ValueError):
    """An option is unknown, or its value is refused."""


class ProgramError(DelegateError, ValueError):
    """The bytes are not a complete ExecuTorch program."""


class BlobError(DelegateError, ValueError):
    """The bytes are not a complete delegate blob."""


class ExportError(DelegateError):
    """A model cannot be exported, or the exported file is not what was asked for."""


class UnsupportedSourceError(ExportError, TypeError):
    """The object given to the export is of a kind that it does not know."""


def kind_of(value: object) -> str:
    """Return the type of a value as sentences name it, such as "an int"."""
    name = type(value).__name__
    return f"a{'n' if name[0] in 'aeiouAEIOU' else ''} {name}"
