"""Torch-TensorRT's compilation settings for engines that an ExecuTorch program holds."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from torch_tensorrt_executorch_runtime.export._options import BuildOptions
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt, uses_tensorrt_rtx

__all__ = ["ENGINE_DTYPES", "compilation_settings", "decomposes_attention", "splits_float32", "use_settings"]

# Types that an engine reads and writes as they are. Any other type would be converted without a word.
ENGINE_DTYPES = frozenset({torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool})


def compilation_settings(options: BuildOptions) -> Any:
    """Return the ``CompilationSettings`` that ``options`` stand for.

    The device is given although engines are built without one: its default would ask CUDA.
    """
    torch_tensorrt = load_torch_tensorrt()
    settings = importlib.import_module("torch_tensorrt.dynamo._settings")
    return settings.CompilationSettings(
        device=torch_tensorrt.Device(gpu_id=0),
        offload_module_to_cpu=True,
        min_block_size=1,
        # Only scalars are left to truncate: tensors of float64 do not get into an engine.
        truncate_double=True,
        fallback_data_dependent_ops=True,
        workspace_size=options.workspace_size,
        optimization_level=options.optimization_level,
        max_aux_streams=options.max_aux_streams,
        use_fp32_acc=options.use_fp32_acc,
        decompose_attention=decomposes_attention(options),
        disable_tf32=options.disable_tf32,
        enable_weight_streaming=options.enable_weight_streaming,
    )


def splits_float32(options: BuildOptions) -> bool:
    """Say whether float32 products are rewritten to stay float32.

    TensorRT-RTX rounds their factors to TF32 whatever it is told; TensorRT obeys the builder's flag.
    """
    return options.disable_tf32 and uses_tensorrt_rtx()


def decomposes_attention(options: BuildOptions) -> bool:
    """Say whether attention is built out of small operators, whose products can be rewritten."""
    return options.decompose_attention or splits_float32(options)


def use_settings(**changed: Any) -> Any:
    """Make the converter registry of this process use the settings, and return them.

    The registry is shared by everything in the process and remembers the last compilation, so this must precede
    every question to it.
    """
    settings = compilation_settings(BuildOptions(**changed))
    registry = importlib.import_module("torch_tensorrt.dynamo.conversion._ConverterRegistry")
    registry.DYNAMO_CONVERTERS.set_compilation_settings(settings)
    return settings
