from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from support.process import PACKAGE

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def package_folder() -> Path:
    """The folder of the installed package, found without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    assert folder.parent != ROOT, "the tests need the installed package: run `make test`"
    return folder


@pytest.fixture
def distribution(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder for ``sys.path`` in which a distribution is installed that has a version and some files."""

    def make(name: str, version: str, files: Mapping[str, bytes | Path] | None = None) -> Path:
        folder = tmp_path / f"{name}-{version}-site"
        information = folder / f"{name}-{version}.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        for relative, content in (files or {}).items():
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                target.symlink_to(content)
            else:
                target.write_bytes(content)
        return folder

    return make
