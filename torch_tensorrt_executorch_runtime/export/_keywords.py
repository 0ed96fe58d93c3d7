"""The keywords of :func:`save` and :func:`lower`, in one place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import torch
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from executorch.exir.backend.partitioner import Partitioner

__all__ = ["LowerKeywords", "SaveKeywords", "check_keywords"]


class LowerKeywords(TypedDict, total=False):
    """What :func:`lower` takes beside its source. The docstring of :func:`save` explains each."""

    inputs: Sequence[Any] | None
    arg_inputs: Sequence[Any] | None
    kwarg_inputs: Mapping[str, Any] | None
    dynamic_shapes: Any
    retrace: bool | None
    use_legacy_exporter: bool | None
    partitioners: Sequence[Partitioner] | Mapping[str, Sequence[Partitioner] | None] | None
    compile_specs: Sequence[CompileSpec] | Mapping[str, Sequence[CompileSpec] | None] | None
    constant_methods: Mapping[str, Any] | None
    transform_passes: Any
    compile_config: EdgeCompileConfig | None
    generate_etrecord: bool
    weight_streaming_budget_per_engine: int | None
    use_cuda_graphs: bool | None
    use_shared_activation_scratch: bool | None
    zero_copy_kv: bool
    device: str | int | torch.device | None
    torch_executed_ops: Collection[Any]
    min_block_size: int
    compute_capabilities: Collection[str | tuple[int, int]] | str | None
    workspace_size: int
    optimization_level: int | None
    max_aux_streams: int | None
    use_fp32_acc: bool
    decompose_attention: bool
    disable_tf32: bool
    enable_weight_streaming: bool
    embed_runtime_cache: bool


class SaveKeywords(LowerKeywords, total=False):
    """What :func:`save` takes beside its source and path."""

    backend_config: ExecutorchBackendConfig | None
    require_engine: bool
    progress: bool | None
    output_format: str
    extra_files: Any
    pickle_protocol: int


def check_keywords(function: str, given: Mapping[str, Any], known: type) -> None:
    """Refuse keywords that ``function`` does not have.

    Raises:
        TypeError: The text lists the unknown and all known names.
    """
    names = known.__annotations__.keys() | getattr(known, "__optional_keys__", frozenset())
    unknown = sorted(given.keys() - names)
    if unknown:
        raise TypeError(
            f"{function}() does not know the keyword {', '.join(unknown)}. Supported are: {', '.join(sorted(names))}."
        )
