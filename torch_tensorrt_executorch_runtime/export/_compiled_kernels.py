"""Compiles the kernels of engines on this machine's GPU, for the file to carry."""

from __future__ import annotations

from typing import Any

from torch_tensorrt_executorch_runtime import _loader
from torch_tensorrt_executorch_runtime._blob import unpack_blob
from torch_tensorrt_executorch_runtime._errors import DelegateCompatibilityError, ExportError, NotRegisteredError
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import uses_tensorrt_rtx

__all__ = ["check_machine", "compile_kernels"]

_LEAVE_OUT = "Leave embed_runtime_cache out, or export on a machine like the one that will run the program."
_NOTHING = (
    "embed_runtime_cache=True has nothing to embed: {found}, and engines of TensorRT hold their kernels already. "
    "Leave embed_runtime_cache out."
)


def check_machine() -> None:
    """Find out whether kernels can be compiled here, before anything is built.

    Raises:
        ExportError: They cannot; the text says why.
    """
    if not uses_tensorrt_rtx():
        raise ExportError(_NOTHING.format(found="the installed Torch-TensorRT builds with TensorRT"))
    facts = _facts()
    if not int(facts.get("cuda.devices") or 0):
        cause = f" ({facts['cuda.error']})" if facts.get("cuda.error") else ""
        raise _refusal(f"no NVIDIA GPU can be used here{cause}")
    if not facts.get("tensorrt.rtx.version"):
        raise _refusal(f"TensorRT-RTX cannot be loaded here ({facts.get('tensorrt.rtx.error') or 'not found'})")


def compile_kernels(blob: bytes) -> tuple[str, bytes]:
    """Compile the kernels of a blob's engine on the GPU that the blob names. This takes seconds.

    Returns:
        The key and the bytes of the named data with which a program carries the kernels.

    Raises:
        ExportError: The engine has none to compile, or the GPU is not there, or TensorRT-RTX refused.
    """
    unpacked = unpack_blob(blob)
    if bytes(unpacked.engine[:4]) == b"ftrt":
        raise ExportError(_NOTHING.format(found="an engine was compiled by TensorRT"))
    devices, device = int(_facts().get("cuda.devices") or 0), unpacked.metadata.device_id
    if device >= devices:
        raise _refusal(f"that is 'cuda:{device}', but {devices} GPU(s) can be used here, counted from 0")
    code, key, kernels = _native().compile_kernels(blob)
    if code != 0:
        raise ExportError(
            f"The kernels of an engine could not be compiled on this machine (ExecuTorch error {code:#x}); its log has "
            f"the cause. {_LEAVE_OUT}"
        )
    return key, kernels


def _facts() -> dict[str, str]:
    return dict(_native().describe())


def _native() -> Any:
    try:
        return _loader.native()
    except (DelegateCompatibilityError, NotRegisteredError) as error:
        raise _refusal(f"the delegate is not registered. {error}".rstrip(". ")) from error


def _refusal(reason: str) -> ExportError:
    return ExportError(f"embed_runtime_cache=True needs the GPU that will run the program: {reason}. {_LEAVE_OUT}")
