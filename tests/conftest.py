"""For all Python tests: they run against the installed package, never against the source folder beside them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.process import PACKAGE, python

_ROOT = Path(__file__).parents[1]


def _prefer_the_installed_package() -> None:
    """Take the source folder off the path, where `python -m pytest` puts it: its package has no compiled part."""
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() != _ROOT]
    if any((Path(entry) / PACKAGE).is_dir() for entry in elsewhere):
        sys.path[:] = elsewhere
        os.environ["PYTHONSAFEPATH"] = "1"  # likewise for `python -c` and `python -m` that tests start


_prefer_the_installed_package()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of real programs: see ``support/make_programs.py``."""
    folder = tmp_path_factory.mktemp("programs")
    made = python(str(_ROOT / "tests" / "support" / "make_programs.py"), str(folder))
    assert made.code == 0, made.err
    return folder
