"""Registers the delegate with the ExecuTorch of this process, or says exactly why it cannot."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import itertools
import os
import sys
import threading
from pathlib import Path
from types import ModuleType

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from torch_tensorrt_executorch_runtime import _paths
from torch_tensorrt_executorch_runtime._after_import import call_after_import
from torch_tensorrt_executorch_runtime._errors import DelegateCompatibilityError, NotRegisteredError

BACKEND_NAME = "TensorRTBackend"
EXECUTORCH_REQUIREMENT = "executorch>=1.5.1,<1.6"
SKIP_VARIABLE = "TORCH_TENSORRT_SKIP_DELEGATE_REGISTRATION"
_COMMAND = "trt-executorch"
_DISTRIBUTION = "torch-tensorrt-executorch-runtime"
_EXECUTORCH_VERSIONS = SpecifierSet(">=1.5.1,<1.6")
_INSTALL_EXECUTORCH = f'Run: {Path(sys.executable).name} -m pip install "{EXECUTORCH_REQUIREMENT}"'
_REINSTALL = f"Run: {Path(sys.executable).name} -m pip install --force-reinstall --no-deps"

_lock = threading.RLock()
_module: ModuleType | None = None


def skipped() -> bool:
    """Whether the environment asks not to register the delegate."""
    return os.environ.get(SKIP_VARIABLE, "").strip().lower() in {"1", "true", "yes"}


def is_registered() -> bool:
    """Whether this process has registered the delegate."""
    return _module is not None


def runs_as_command() -> bool:
    """Whether this process is the package's own command, which registers when it needs to.

    ``doctor`` has to explain a machine on which the import fails, and ``inspect`` needs no library.
    """
    if Path(sys.argv[0] if sys.argv else "").name == _COMMAND:
        return True
    return any(pair == ("-m", __package__) for pair in itertools.pairwise(sys.orig_argv))


def register() -> ModuleType:
    """Load the delegate library, which registers the backend. Doing it again changes nothing.

    Returns:
        The compiled module ``_native``.

    Raises:
        DelegateCompatibilityError: The text names the cause and the cure. A later call tries again.
    """
    global _module  # noqa: PLW0603 - one registration per process
    with _lock:
        if _module is None:
            executorch = _find_executorch()
            _let_executorch_register_its_allocator(executorch)
            _open_executorch(executorch)
            _open_delegate(_paths.library_path())
            module = _import_native()
            _check_registered(module)
            for folder in _paths.tensorrt_search_folders():
                module.add_search_folder(str(folder))
            _module = module
            call_after_import("executorch.runtime", _extend_methods)
        return _module


def native() -> ModuleType:
    """The compiled module ``_native`` (see ``_native.pyi``), after registration.

    Raises:
        NotRegisteredError: The environment switches registration off.
        DelegateCompatibilityError: Registration failed.
    """
    if _module is None:
        if skipped():
            value = os.environ[SKIP_VARIABLE]
            raise NotRegisteredError(
                f"{BACKEND_NAME} is not registered because {SKIP_VARIABLE}={value} is set. "
                "Unset it and start the process again."
            )
        return register()
    return _module


def _find_executorch() -> Path:
    try:
        found = importlib.metadata.version("executorch")
    except importlib.metadata.PackageNotFoundError:
        raise DelegateCompatibilityError(
            f"ExecuTorch is not installed, but {_DISTRIBUTION} runs inside it. {_INSTALL_EXECUTORCH}"
        ) from None
    _check_version(found)
    folder = _paths.executorch_folder()
    library = folder / "lib" / "libexecutorch.so"
    if not library.is_file():
        raise DelegateCompatibilityError(
            f"ExecuTorch {found} is installed, but its runtime library {library} is missing. "
            f'{_REINSTALL} "executorch=={found}"'
        )
    return folder


def _check_version(found: str) -> None:
    try:
        version = Version(found)
    except InvalidVersion:
        raise DelegateCompatibilityError(
            f"The installed ExecuTorch has the unreadable version {found!r}; expected {EXECUTORCH_REQUIREMENT}. "
            f"{_INSTALL_EXECUTORCH}"
        ) from None
    if _EXECUTORCH_VERSIONS.contains(version, prereleases=True):
        return
    too = "old" if version < Version("1.5.1") else "new"
    raise DelegateCompatibilityError(
        f"ExecuTorch {found} is too {too}: this delegate was built for {EXECUTORCH_REQUIREMENT}. {_INSTALL_EXECUTORCH}"
    )


def _let_executorch_register_its_allocator(executorch: Path) -> None:
    """Load a CUDA build of ExecuTorch first: it aborts the process when the delegate has brought an allocator."""
    if not (executorch / "lib" / "libexecutorch_backend_cuda.so").is_file():
        return
    try:
        importlib.import_module("torch")  # the extension links libtorch and finds it in the process
        importlib.import_module("executorch.extension.pybindings._C")
    except (ImportError, OSError) as error:
        raise DelegateCompatibilityError(
            f"The CUDA build of ExecuTorch in {executorch} cannot be loaded: {error}. "
            "Install the torch version that it was built for, or the ExecuTorch without CUDA."
        ) from error


def _open_executorch(executorch: Path) -> None:
    """Map ExecuTorch's runtime, so that the delegate's own reference to it is met wherever either package lies."""
    library = executorch / "lib" / "libexecutorch.so"
    for other in mapped_libraries("libexecutorch.so"):
        if not other.exists() or not other.samefile(library):
            raise DelegateCompatibilityError(
                f"This process already runs the ExecuTorch of {other}, but Python's ExecuTorch is {library}. "
                "Registering into one would leave the other without the delegate: use a single ExecuTorch."
            )
    try:
        ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise DelegateCompatibilityError(
            f"ExecuTorch's runtime library cannot be loaded: {error}. "
            f'{_REINSTALL} "executorch=={importlib.metadata.version("executorch")}"'
        ) from error


def _open_delegate(library: Path) -> None:
    if not library.is_file():
        raise DelegateCompatibilityError(
            f"The delegate library {library} is missing from the installed package. {_REINSTALL} {_DISTRIBUTION}"
        )
    try:
        # RTLD_LOCAL keeps our symbols out of everybody else's way; ctypes gives the loader's own words.
        ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise DelegateCompatibilityError(
            f"The delegate library cannot be loaded: {error}. "
            f"It was built for {EXECUTORCH_REQUIREMENT}. {_REINSTALL} {_DISTRIBUTION}"
        ) from error


def _import_native() -> ModuleType:
    try:
        return importlib.import_module("torch_tensorrt_executorch_runtime._native")
    except ImportError as error:
        raise DelegateCompatibilityError(
            f"The compiled module of this package cannot be loaded: {error}. It must match the running Python "
            f"{sys.version_info.major}.{sys.version_info.minor}. {_REINSTALL} {_DISTRIBUTION}"
        ) from error


def _extend_methods(runtime: ModuleType) -> None:
    # Not before: it needs torch, which ExecuTorch's Python code has brought by now.
    importlib.import_module("torch_tensorrt_executorch_runtime._methods").install(runtime)


def _check_registered(module: ModuleType) -> None:
    code = module.registration_error()
    owner = module.backend_owner()
    if code != 0 and owner:
        raise DelegateCompatibilityError(
            f"The backend name {BACKEND_NAME} is already taken by {owner}, so this delegate cannot serve it. "
            "Import only one of the two in a process."
        )
    if code != 0 or not module.is_registered():
        raise DelegateCompatibilityError(
            f"{_paths.library_path()} was loaded, but {BACKEND_NAME} is not in ExecuTorch's registry "
            f"(ExecuTorch error {code:#x}). Another library may have filled its table of backends: "
            "import this package first."
        )


def mapped_libraries(name: str) -> list[Path]:
    """Files of this name that are mapped into the process."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    # Address, permissions, offset, device, inode, path: the path may hold spaces.
    paths = (fields[5] for fields in (line.split(maxsplit=5) for line in lines) if len(fields) == 6)
    return [Path(path) for path in dict.fromkeys(paths) if Path(path).name == name]
