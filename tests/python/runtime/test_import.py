from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import executorch
import pytest

from support.process import PACKAGE, import_error, run_code

INSTALL = '-m pip install "executorch>=1.5.1,<1.6"'
EXECUTORCH = Path(next(iter(executorch.__path__)))
RUNTIME = EXECUTORCH / "lib" / "libexecutorch.so"
Distribution = Callable[..., Path]


def alone(tmp_path: Path, package: Path) -> dict[str, object]:
    """Options for a process that sees our package and what it needs at import, but no ExecuTorch."""
    import packaging

    folder = tmp_path / "alone"
    folder.mkdir()
    (folder / PACKAGE).symlink_to(package)
    (folder / "packaging").symlink_to(Path(packaging.__path__[0]))
    information = next(package.parent.glob(f"{PACKAGE}-*.dist-info"))
    (folder / information.name).symlink_to(information)
    return {"env": {"PYTHONPATH": str(folder), "PYTHONNOUSERSITE": "1"}, "flags": ["-S"]}


def compile_library(tmp_path: Path, name: str, source: str) -> Path:
    """Compile a small library against the installed ExecuTorch."""
    code = tmp_path / f"{name}.cpp"
    code.write_text(source)
    library = tmp_path / f"lib{name}.so"
    include = EXECUTORCH / "include"
    subprocess.run(
        ["g++", "-std=c++17", "-shared", "-fPIC", "-DC10_USING_CUSTOM_GENERATED_MACROS", f"-I{include}",
         f"-I{include}/executorch/runtime/core/portable_type/c10", str(code), "-o", str(library),
         f"-L{RUNTIME.parent}", "-lexecutorch", f"-Wl,-rpath,{RUNTIME.parent}"],
        check=True,
    )  # fmt: skip
    return library


BACKENDS = """
#include <executorch/runtime/backend/interface.h>
#include <string>
using namespace executorch::runtime;
struct Nothing final : BackendInterface {
  bool is_available() const override { return true; }
  Result<DelegateHandle*> init(BackendInitContext&, FreeableBuffer*, ArrayRef<CompileSpec>) const override {
    return Error::NotSupported;
  }
  Error execute(BackendExecutionContext&, DelegateHandle*, Span<EValue*>) const override { return Error::NotSupported; }
};
static Nothing nothing;
"""


def test_importing_registers_and_brings_neither_torch_nor_executorch() -> None:
    result = run_code(
        f"""
        import sys
        import {PACKAGE} as package
        assert package.delegate_info()["registered"]
        assert package.delegate_info()["backends"] == ["TensorRTBackend"]
        heavy = {{"torch", "executorch", "numpy", "typer", "rich"}} & {{name.split(".")[0] for name in sys.modules}}
        assert not heavy, heavy
        """
    )
    assert result.code == 0, result.err


@pytest.mark.parametrize("order", ["before", "after"])
def test_registers_before_and_after_executorch_runtime(order: str) -> None:
    imports = [f"import {PACKAGE}", "from executorch.runtime import Runtime"]
    lines = imports if order == "before" else imports[::-1]
    result = run_code(
        "\n".join(
            [*lines, "from executorch.runtime import Runtime", "registry = Runtime.get().backend_registry",
             "assert registry.registered_backend_names.count('TensorRTBackend') == 1",
             "maps = open('/proc/self/maps').read().splitlines()",
             "print(len({line.split()[-1] for line in maps if line.endswith('/libexecutorch.so')}))"]
        )
    )  # fmt: skip
    assert result.code == 0, result.err
    assert result.out.strip() == "1", "two copies of libexecutorch.so are mapped"


def test_importing_again_changes_nothing() -> None:
    result = run_code(
        f"""
        import importlib, sys
        first = importlib.import_module("{PACKAGE}")
        again = importlib.reload(first)
        for name in [name for name in sys.modules if name.startswith("{PACKAGE}")]:
            if not name.endswith("._native"):
                del sys.modules[name]
        third = importlib.import_module("{PACKAGE}")
        assert third is not first
        assert third.delegate_info()["backends"].count("TensorRTBackend") == 1
        """
    )
    assert result.code == 0, result.err


def test_threads_may_import_at_once() -> None:
    result = run_code(
        f"""
        import importlib, threading
        barrier, results = threading.Barrier(8), []
        def work():
            barrier.wait()
            results.append(importlib.import_module("{PACKAGE}").delegate_info()["registered"])
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert results == [True] * 8, results
        """
    )
    assert result.code == 0, result.err


def test_works_in_an_empty_environment(tmp_path: Path) -> None:
    done = subprocess.run(
        ["env", "-i", sys.executable, "-c", f"import {PACKAGE} as p; assert p.delegate_info()['registered']"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if f"No module named '{PACKAGE}'" in done.stderr:
        pytest.skip("the package is on PYTHONPATH and not installed")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", ["1", "true", "YES"])
def test_the_environment_can_switch_registration_off(value: str) -> None:
    result = run_code(
        f"""
        import {PACKAGE} as package
        assert "libexecutorch" not in open("/proc/self/maps").read()
        assert package.library_path().is_file()
        assert package.include_path().is_dir()
        assert package.cmake_prefix_path().count(";") == 1
        info = package.delegate_info()
        assert info["skipped"] and not info["registered"]
        assert "TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION is set" in info["missing"][0]
        for call in (lambda: package.get_option("tensorrt_library"), lambda: package.caller_stream(0).__enter__()):
            try:
                call()
            except package.NotRegisteredError as error:
                assert "TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION={value}" in str(error), error
            else:
                raise SystemExit("no error")
        """,
        env={"TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION": value},
    )
    assert result.code == 0, result.err


def test_any_other_value_leaves_registration_on() -> None:
    result = run_code(
        f"import {PACKAGE} as p; assert p.delegate_info()['registered']",
        env={"TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION": "0"},
    )
    assert result.code == 0, result.err


def test_says_when_executorch_is_absent(tmp_path: Path, package_folder: Path) -> None:
    text = import_error(**alone(tmp_path, package_folder))
    assert text.startswith("ExecuTorch is not installed")
    assert INSTALL in text


@pytest.mark.parametrize(
    ("version", "word"),
    [("1.4.1", "too old"), ("1.5.1rc2", "too old"), ("1.6.0", "too new"), ("1.6.0.dev1", "too new")],
)
def test_says_when_executorch_is_of_another_version(distribution: Distribution, version: str, word: str) -> None:
    text = import_error(path=[distribution("executorch", version)])
    assert f"ExecuTorch {version} is {word}" in text
    assert INSTALL in text


def test_says_when_the_version_is_unreadable(distribution: Distribution) -> None:
    text = import_error(path=[distribution("executorch", "main-abc")])
    assert "unreadable version 'main-abc'" in text
    assert INSTALL in text


def test_says_when_executorch_has_no_runtime_library(distribution: Distribution) -> None:
    folder = distribution("executorch", "1.5.1", {"executorch/lib/other.so": b""})
    text = import_error(path=[folder])
    assert f"its runtime library {folder}/executorch/lib/libexecutorch.so is missing" in text
    assert '--force-reinstall --no-deps "executorch==1.5.1"' in text


def test_says_when_executorch_cannot_be_loaded(distribution: Distribution) -> None:
    folder = distribution("executorch", "1.5.1", {"executorch/lib/libexecutorch.so": b"no library"})
    text = import_error(path=[folder])
    assert "ExecuTorch's runtime library cannot be loaded" in text
    assert "file too short" in text or "invalid ELF header" in text
    assert "--force-reinstall" in text


def test_says_when_a_cuda_build_of_executorch_cannot_be_loaded(distribution: Distribution) -> None:
    files = {
        "executorch/lib/libexecutorch.so": RUNTIME,
        "executorch/lib/libexecutorch_backend_cuda.so": b"",
        "executorch/extension/pybindings/_C.py": b"raise ImportError('libcudart.so.13 is missing')",
    }
    text = import_error(path=[distribution("executorch", "1.5.1", files)])
    assert text.startswith("The CUDA build of ExecuTorch in ")
    assert "libcudart.so.13 is missing" in text
    assert "Install the torch version that it was built for" in text


def test_a_cuda_build_of_executorch_is_loaded_first(distribution: Distribution) -> None:
    code = b"from pathlib import Path\nassert 'backend_tensorrt' not in Path('/proc/self/maps').read_text()"
    files = {
        "executorch/lib/libexecutorch.so": RUNTIME,
        "executorch/lib/libexecutorch_backend_cuda.so": b"",
        "executorch/extension/pybindings/_C.py": code,
    }
    folder = distribution("executorch", "1.5.1", files)
    result = run_code(
        f"import {PACKAGE}, sys; assert 'executorch.extension.pybindings._C' in sys.modules", path=[folder]
    )
    assert result.code == 0, result.err


def copy_of_the_package(tmp_path: Path, package: Path) -> Path:
    """Copy the package, so that a test may damage it; return the folder for ``sys.path``."""
    folder = tmp_path / "copy"
    shutil.copytree(package, folder / PACKAGE, symlinks=False)
    information = next(package.parent.glob(f"{PACKAGE}-*.dist-info"))
    shutil.copytree(information, folder / information.name)
    return folder


def test_says_when_the_delegate_library_is_missing(tmp_path: Path, package_folder: Path) -> None:
    folder = copy_of_the_package(tmp_path, package_folder)
    library = folder / PACKAGE / "lib" / "libexecutorch_backend_tensorrt.so"
    library.unlink()
    text = import_error(path=[folder])
    assert f"The delegate library {library} is missing" in text
    assert "pip install --force-reinstall --no-deps torch-tensorrt-executorch-runtime" in text


def test_says_when_the_delegate_library_cannot_be_loaded(tmp_path: Path, package_folder: Path) -> None:
    folder = copy_of_the_package(tmp_path, package_folder)
    library = folder / PACKAGE / "lib" / "libexecutorch_backend_tensorrt.so"
    library.write_bytes(library.read_bytes()[:100])
    text = import_error(path=[folder])
    assert "The delegate library cannot be loaded" in text
    assert str(library) in text
    assert "It was built for executorch>=1.5.1,<1.6" in text


def test_says_when_the_compiled_module_does_not_fit(tmp_path: Path, package_folder: Path) -> None:
    folder = copy_of_the_package(tmp_path, package_folder)
    for module in (folder / PACKAGE).glob("_native*.so"):
        module.unlink()
    text = import_error(path=[folder])
    assert "The compiled module of this package cannot be loaded" in text
    assert "It must match the running Python 3." in text


def test_says_who_has_taken_the_name(tmp_path: Path) -> None:
    source = BACKENDS + 'static auto done = register_backend({"TensorRTBackend", &nothing});'
    library = compile_library(tmp_path, "other_tensorrt", source)
    result = run_code(
        f"""
        import ctypes
        ctypes.CDLL({str(library)!r})
        try:
            import {PACKAGE}
        except ImportError as error:
            print(error)
        """
    )
    assert f"TensorRTBackend is already taken by {library}" in result.out, result.err
    assert "Import only one of the two" in result.out


def test_says_when_the_registry_is_full(tmp_path: Path) -> None:
    source = BACKENDS + (
        "static bool fill() { for (int i = 0; i < 16; ++i) "
        '(void)register_backend({(new std::string("b" + std::to_string(i)))->c_str(), &nothing}); return true; }'
        "static bool filled = fill();"
    )
    library = compile_library(tmp_path, "full", source)
    result = run_code(
        f"""
        import ctypes
        ctypes.CDLL({str(library)!r})
        try:
            import {PACKAGE}
        except ImportError as error:
            print(error)
        """
    )
    assert "TensorRTBackend is not in ExecuTorch's registry (ExecuTorch error 0x1)" in result.out, result.err
    assert "import this package first" in result.out


def test_says_when_the_process_runs_another_executorch(tmp_path: Path) -> None:
    other = tmp_path / "libexecutorch.so"
    shutil.copy(RUNTIME, other)
    result = run_code(
        f"""
        import ctypes
        ctypes.CDLL({str(other)!r})
        try:
            import {PACKAGE}
        except ImportError as error:
            print(error)
        """
    )
    assert f"This process already runs the ExecuTorch of {other}" in result.out, result.err
    assert "use a single ExecuTorch" in result.out


def test_a_failed_import_can_be_tried_again(distribution: Distribution) -> None:
    folder = distribution("executorch", "1.4.1")
    result = run_code(
        f"""
        import importlib, sys
        sys.path.insert(0, {str(folder)!r})
        for _ in range(2):
            try:
                import {PACKAGE}
            except ImportError as error:
                assert "too old" in str(error)
            else:
                raise SystemExit("the import worked")
        sys.path.remove({str(folder)!r})
        importlib.invalidate_caches()
        import {PACKAGE}
        assert {PACKAGE}.delegate_info()["registered"]
        """
    )
    assert result.code == 0, result.err


def test_the_deprecated_names_warn_and_work() -> None:
    result = run_code(
        f"""
        import warnings
        import {PACKAGE} as package
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DeprecationWarning)
            package.activate()
            runtime = package.get_runtime()
        texts = [str(item.message) for item in caught if item.category is DeprecationWarning]
        assert any("importing the package registers" in text for text in texts), texts
        assert any("executorch.runtime.Runtime.get()" in text for text in texts), texts
        assert runtime.backend_registry.is_available("TensorRTBackend") in (True, False)
        """
    )
    assert result.code == 0, result.err
