"""For all Python tests: they run against the installed package, never against the source folder beside them."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]

# `python -m pytest` puts the working folder first. The package in it has no compiled part.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _ROOT]
