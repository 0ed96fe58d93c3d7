"""What the documents say is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tomllib

from support.process import run_code
from torch_tensorrt_executorch_runtime import _options
from torch_tensorrt_executorch_runtime._blob import Binding, BlobMetadata, Profile, TensorRTVersion, pack_blob

ROOT = Path(__file__).parents[3]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def blocks(document: str, language: str) -> list[str]:
    """Code blocks of a language in a document."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_the_first_example_of_the_readme_exports_a_model(tmp_path: Path) -> None:
    example = blocks("README.md", "python")[0]
    result = run_code(example, cwd=tmp_path)
    assert result.code == 0, result.err
    assert "delegates ['TensorRTBackend']" in result.out
    assert (tmp_path / "model.pte").is_file()


@pytest.mark.parametrize("document", ["README.md", "docs/export.md", "docs/run-python.md", "docs/options.md"])
def test_python_examples_compile(document: str) -> None:
    for example in blocks(document, "python"):
        compile(example, document, "exec")


def test_the_example_of_the_cpp_page_compiles(tmp_path: Path) -> None:
    import subprocess

    import executorch

    (tmp_path / "main.cpp").write_text(blocks("docs/run-cpp.md", "cpp")[0])
    include = Path(next(iter(executorch.__path__))) / "include"
    subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-DC10_USING_CUSTOM_GENERATED_MACROS", f"-I{include}",
         f"-I{include}/executorch/runtime/core/portable_type/c10", tmp_path / "main.cpp"],
        check=True,
    )  # fmt: skip


def test_every_option_and_variable_is_described() -> None:
    page = (ROOT / "docs" / "options.md").read_text()
    for name in (*_options._PROCESS_OPTIONS, *_options._LOAD_OPTIONS):
        assert f"`{name}`" in page, name
    in_cpp = re.findall(r'string_view k\w+ = "(\w+)";', (ROOT / "src" / "engine" / "options.cpp").read_text())
    compile_specs_only = {"results_in_stream_order"}
    assert {*_options._PROCESS_OPTIONS, *_options._LOAD_OPTIONS} == set(in_cpp) - compile_specs_only
    assert all(f"`{name}`" in (ROOT / "docs" / "format.md").read_text() for name in compile_specs_only)
    sources = [*(ROOT / "src").rglob("*.cpp"), *(ROOT / "torch_tensorrt_executorch_runtime").rglob("*.py")]
    text = "\n".join(path.read_text() for path in sources)
    variables = set(re.findall(r'"((?:TENSORRT_EXECUTORCH|TORCH_TENSORRT_SKIP)_[A-Z_]+)"', text))
    assert len(variables) >= 4
    for name in variables:
        assert f"`{name}`" in page, name


def test_every_key_of_the_metadata_is_described() -> None:
    page = (ROOT / "docs" / "format.md").read_text()
    binding = Binding("x", is_input=True, dtype="float32", shape=(-1,), profile=Profile((1,), (2,), (3,)))
    metadata = BlobMetadata(
        bindings=(binding,),
        tensorrt=TensorRTVersion("rtx", "1.6.1.120"),
        compute_capabilities=(),
        layers=1,
        build_seconds=0.1,
    )
    blob = pack_blob(metadata, b"vtrt")
    document = json.loads(blob[32 : blob.index(b"vtrt")].rstrip(b"\0"))
    for key in (*document, *document["io_bindings"][0], *document["tensorrt"]):
        assert key in page, key
    order = [page.index(f"| `{key}` |") for key in document]
    assert order == sorted(order), "the page lists the keys in the order in which they are written"


def test_every_exception_is_described() -> None:
    import torch_tensorrt_executorch_runtime as package

    page = (ROOT / "docs" / "errors.md").read_text() + (ROOT / "docs" / "options.md").read_text()
    names = [name for name in package.__all__ if name.endswith("Error") and name != "DelegateError"]
    for name in names:
        assert f"`{name}`" in page, name


def test_the_changelog_has_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
