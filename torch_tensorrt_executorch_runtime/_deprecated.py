"""Names of an earlier generation of this package, kept so that programs written for it go on working."""

from __future__ import annotations

import warnings
from typing import Any

from torch_tensorrt_executorch_runtime import _loader

__all__ = ["activate", "get_runtime"]


def activate() -> None:
    """Register the delegate. Deprecated: importing the package does it."""
    warnings.warn("activate() is not needed: importing the package registers.", DeprecationWarning, stacklevel=2)
    _loader.native()


def get_runtime() -> Any:
    """Return ``executorch.runtime.Runtime.get()``. Deprecated: call that."""
    warnings.warn("Use executorch.runtime.Runtime.get() instead.", DeprecationWarning, stacklevel=2)
    _loader.native()
    from executorch.runtime import Runtime  # noqa: PLC0415 - imports torch

    return Runtime.get()
