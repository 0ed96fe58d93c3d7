"""Builds the TensorRT engine of one partition, on any machine. Importing this loads Torch-TensorRT."""

from __future__ import annotations

import importlib
import os
import platform
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime._blob import (
    RESERVED_NAMES,
    Binding,
    BlobMetadata,
    TensorRTVersion,
    pack_blob,
)
from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export import _progress
from torch_tensorrt_executorch_runtime.export._attention_arguments import suit_attention
from torch_tensorrt_executorch_runtime.export._attention_heads import view_heads_once
from torch_tensorrt_executorch_runtime.export._attention_products import write_attention_as_products
from torch_tensorrt_executorch_runtime.export._batch_norm import fold_batch_norm
from torch_tensorrt_executorch_runtime.export._full_float32 import split_float32_products
from torch_tensorrt_executorch_runtime.export._input_sizes import ask_inputs_for_sizes
from torch_tensorrt_executorch_runtime.export._integers import keep_integers_exact
from torch_tensorrt_executorch_runtime.export._interpreter import build_engine
from torch_tensorrt_executorch_runtime.export._last_linear import batch_last_linears
from torch_tensorrt_executorch_runtime.export._layout import let_views_copy
from torch_tensorrt_executorch_runtime.export._multihead_attention import cut_packed_projections, unfold_heads
from torch_tensorrt_executorch_runtime.export._options import BuildOptions
from torch_tensorrt_executorch_runtime.export._profiles import (
    EngineInput,
    engine_inputs,
    program_ranges,
    static_shape,
)
from torch_tensorrt_executorch_runtime.export._projections import fuse_projections
from torch_tensorrt_executorch_runtime.export._settings import compilation_settings, splits_float32
from torch_tensorrt_executorch_runtime.export._space_to_depth import read_blocks_of_pixels
from torch_tensorrt_executorch_runtime.export._split_k import split_deep_convolutions
from torch_tensorrt_executorch_runtime.export._tokens import flatten_tokens
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import tensorrt_version, uses_tensorrt_rtx
from torch_tensorrt_executorch_runtime.export._twin import build_twin, tensor_meta

__all__ = ["build_blob", "partition_module", "target_platform"]


def build_blob(program: ExportedProgram, *, options: BuildOptions, device_id: int) -> bytes:
    """Build the engine of one partition and pack it.

    Args:
        program: The partition as ExecuTorch hands it to a backend.
        options: How to build.
        device_id: CUDA ordinal on which the engine will run.

    Raises:
        ExportError: TensorRT has no such compute capability, or refuses the network; the text holds its reason.
    """
    started = time.perf_counter()
    module, inputs = partition_module(program, options)
    outputs = _output_bindings(program)
    engine, layers = build_engine(module, inputs, outputs, options)
    seconds = time.perf_counter() - started
    _progress.engine_built(layers=layers, size_bytes=len(engine), seconds=seconds)
    metadata = BlobMetadata(
        bindings=(*map(_input_binding, inputs), *outputs),
        device_id=device_id,
        target_platform=target_platform(),
        tensorrt=TensorRTVersion("rtx" if uses_tensorrt_rtx() else "tensorrt", tensorrt_version()),
        compute_capabilities=options.compute_capabilities,
        layers=layers,
        build_seconds=_recorded(seconds),
    )
    return pack_blob(metadata, engine)


def partition_module(program: ExportedProgram, options: BuildOptions) -> tuple[torch.fx.GraphModule, list[EngineInput]]:
    """Return the partition as the module that TensorRT's converters are given, and its inputs.

    The module can also be run, which shows that the lowering kept its meaning.
    """
    settings = compilation_settings(options)
    module = build_twin(program).module
    _rename_inputs(module)
    keep_integers_exact(module)
    _join_attention_heads(module)
    inputs = engine_inputs(_placeholders(module), program_ranges(program))
    _forget_sizes_in_the_making(module)
    # PyTorch chooses the layout of attention by that of its operands, so a pass that computes it anew may change it.
    let_views_copy(module)
    module = importlib.import_module("torch_tensorrt.dynamo.lowering").post_lowering(module, settings)
    _suit_kernels(module, options)
    for node in list(module.graph.nodes):
        if node.op == "get_attr" and not node.users:
            module.graph.erase_node(node)
        # The converters would let the engine write its result into the input, which is not theirs to decide.
        node.meta["_trt_no_kv_alias"] = True
        # The passes leave that of a pooling with indices to a pooling without, and validators stumble over it.
        node.meta.update(tensor_meta(node.meta.get("val")))
    if splits_float32(options):
        split_float32_products(module)
    module.recompile()
    names = [node.name for node in _placeholders(module)]
    if names != [entry.name for entry in inputs]:
        raise ExportError(
            f"Torch-TensorRT's passes changed the inputs {[entry.name for entry in inputs]} of an engine to {names}. "
            "Keep the operators of this partition out with torch_executed_ops."
        )
    return module, inputs


def target_platform() -> str:
    """Return the platform's name as Torch-TensorRT writes it, such as ``linux_x86_64``."""
    return f"{platform.system().lower()}_{platform.machine().lower()}"


def _join_attention_heads(module: torch.fx.GraphModule) -> None:
    """Write every way to attention heads as one product and one view."""
    ask_inputs_for_sizes(module)
    cut_packed_projections(module)
    unfold_heads(module)
    fuse_projections(module)
    view_heads_once(module)


def _suit_kernels(module: torch.fx.GraphModule, options: BuildOptions) -> None:
    """Write attention, convolutions and layers of tokens as TensorRT has fast kernels for them."""
    suit_attention(module)
    if uses_tensorrt_rtx() and not options.use_fp32_acc:  # products that add up in float32 are not joined again
        write_attention_as_products(module)
    fold_batch_norm(module)
    read_blocks_of_pixels(module)
    split_deep_convolutions(module)
    flatten_tokens(module, kept=batch_last_linears(module))


def _placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _forget_sizes_in_the_making(module: torch.fx.GraphModule) -> None:
    """Drop the sizes that PyTorch expects in the next result that it looks at.

    ExecuTorch's passes compute operators such as ``nonzero`` anew and leave the sizes that these make. No operator of
    an engine makes any, so PyTorch would miss them there.
    """
    for node in module.graph.nodes:
        value = node.meta.get("val")
        shapes = value.fake_mode.shape_env if isinstance(value, FakeTensor) else None
        if shapes is not None:
            shapes.pending_fresh_unbacked_symbols.clear()


def _rename_inputs(module: torch.fx.GraphModule) -> None:
    taken = {node.name for node in module.graph.nodes}
    for node in _placeholders(module):
        name = node.name
        if name not in RESERVED_NAMES and name.isascii():
            continue
        name = f"input_{name}" if name.isascii() else "input"
        while name in taken:
            name += "_"
        taken.add(name)
        node.name = node.target = name


def _input_binding(entry: EngineInput) -> Binding:
    return Binding(entry.name, True, _dtype_name(entry.dtype), entry.shape, entry.profile)


def _output_bindings(program: ExportedProgram) -> list[Binding]:
    inputs = {node.name for node in program.graph.nodes if node.op == "placeholder"}
    bindings = []
    for index, node in enumerate(_outputs(program)):
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            raise ExportError(
                f"Output {index} of an engine is {node!r}, but engines give tensors only. Lower the model with "
                "torch_tensorrt_executorch_runtime.export.lower, which computes sizes outside."
            )
        name = f"output_{index}"
        while name in inputs:
            name += "_"
        bindings.append(Binding(name, False, _dtype_name(value.dtype), static_shape(value)))
    return bindings


def _outputs(program: ExportedProgram) -> Sequence[Any]:
    output = program.graph.output_node().args[0]
    return output if isinstance(output, list | tuple) else [output]


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _recorded(seconds: float) -> float | None:
    # SOURCE_DATE_EPOCH asks for files that depend on their sources alone (reproducible-builds.org).
    return None if "SOURCE_DATE_EPOCH" in os.environ else round(seconds, 3)
