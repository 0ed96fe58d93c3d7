"""Export PyTorch models to ExecuTorch programs with TensorRT engines. No GPU is needed with TensorRT-RTX."""

from __future__ import annotations

# First, because it imports quietly what the others import.
from torch_tensorrt_executorch_runtime.export import _executorch as _executorch
from torch_tensorrt_executorch_runtime.export._extend import ExtendedTorchTensorRT, extend_torch_tensorrt
from torch_tensorrt_executorch_runtime.export._options import BuildOptions
from torch_tensorrt_executorch_runtime.export.lower import lower
from torch_tensorrt_executorch_runtime.export.memory_planning import DeviceSafeMemoryPlanningPass, device_safe_config
from torch_tensorrt_executorch_runtime.export.partitioner import TensorRTPartitioner
from torch_tensorrt_executorch_runtime.export.preprocess import TensorRTBackend
from torch_tensorrt_executorch_runtime.export.report import EngineReport, ExportReport, OutsideOperator, WrittenFile
from torch_tensorrt_executorch_runtime.export.save import save

__all__ = [
    "BuildOptions",
    "DeviceSafeMemoryPlanningPass",
    "EngineReport",
    "ExportReport",
    "ExtendedTorchTensorRT",
    "OutsideOperator",
    "TensorRTBackend",
    "TensorRTPartitioner",
    "WrittenFile",
    "device_safe_config",
    "extend_torch_tensorrt",
    "lower",
    "save",
]
