"""Chooses the parts of an edge program that become TensorRT engines."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch._prims_common import is_contiguous_or_false
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime._blob import BACKEND_ID
from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export._backend_lookup import prefer_own_backend
from torch_tensorrt_executorch_runtime.export._compiled_kernels import check_machine
from torch_tensorrt_executorch_runtime.export._decompositions import add_decompositions
from torch_tensorrt_executorch_runtime.export._layout import in_default_layout
from torch_tensorrt_executorch_runtime.export._operator_support import (
    NodeSupport,
    excluded_names,
    is_engine_call,
    plain_overload,
)
from torch_tensorrt_executorch_runtime.export._options import (
    REPORT_SPEC,
    TARGET_DEVICE_SPEC,
    BuildOptions,
    delegate_specs,
    device_index_of,
    normalize_capabilities,
)
from torch_tensorrt_executorch_runtime.export._partitions import propose_engine_calls, propose_partitions
from torch_tensorrt_executorch_runtime.export._profiles import RANGES_META
from torch_tensorrt_executorch_runtime.export._settings import decomposes_attention
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt
from torch_tensorrt_executorch_runtime.export.report import OutsideOperator, outside_operators

__all__ = ["TensorRTPartitioner"]


class TensorRTPartitioner(Partitioner):  # type: ignore[misc]
    """Hands what TensorRT can run to TensorRT, for ``to_edge_transform_and_lower``.

    Operators that TensorRT does not take stay for later partitioners or for ExecuTorch's own kernels. In a program
    whose engines were compiled by Torch-TensorRT, exactly these engines are taken and nothing else.

    Use one instance per method and export. :func:`lower` and :func:`save` do, and they also prepare dynamic sizes so
    that more operators fit into engines.

    Args:
        compile_specs: Further compile specs for the delegates.
        device: CUDA device on which the engines will run; ``cuda:0`` by default.
        torch_executed_ops: Operators to keep out, as targets (``torch.ops.aten.erf.default``, ``torch.ops.aten.erf``)
            or names (``"aten.erf.default"``).
        min_block_size: Engines with fewer computing operators are not built.
        compute_capabilities: GPUs to build for, such as ``["8.6", "8.9"]``; by default every GPU that TensorRT-RTX
            supports.
        weight_streaming_budget_per_engine: Bytes of weights that stay on the GPU, per engine.
        use_cuda_graphs: Record the engine as a CUDA graph when it runs.
        use_shared_activation_scratch: Let the engines of a GPU take turns in one block of scratch memory.
        **options: Any other field of :class:`BuildOptions`.

    Raises:
        ExportError: Options that contradict each other, or kernels that cannot be compiled on this machine.
        TypeError: An unknown option, or one of the wrong type.
        ValueError: ``torch_executed_ops`` holds what is no operator.
    """

    def __init__(
        self,
        compile_specs: Sequence[CompileSpec] | None = None,
        *,
        device: str | int | torch.device | None = None,
        torch_executed_ops: Collection[Any] = (),
        min_block_size: int = 1,
        compute_capabilities: Collection[str | tuple[int, int]] | str | None = None,
        weight_streaming_budget_per_engine: int | None = None,
        use_cuda_graphs: bool | None = None,
        use_shared_activation_scratch: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        _check_names(options)
        self.options = BuildOptions(compute_capabilities=normalize_capabilities(compute_capabilities), **options)
        if self.options.embed_runtime_cache:
            check_machine()
        specs = delegate_specs(
            device=device,
            weight_streaming_budget_per_engine=weight_streaming_budget_per_engine,
            use_cuda_graphs=use_cuda_graphs,
            use_shared_activation_scratch=use_shared_activation_scratch,
            compile_specs=list(compile_specs or ()),
        )
        self.delegation_spec = DelegationSpec(BACKEND_ID, [*specs, *self.options.specs()])
        self.outside: tuple[OutsideOperator, ...] = ()
        self.kept_whole: frozenset[Any] = frozenset()
        given = device is not None or any(spec.key == TARGET_DEVICE_SPEC for spec in compile_specs or ())
        self._device = device_index_of(specs) if given else None
        self._excluded = excluded_names(torch_executed_ops)
        self._min_block_size = min_block_size
        self._decomposed: frozenset[Any] = frozenset()
        self._failed: frozenset[str] = frozenset()
        self._ranges: dict[Any, Any] = {}
        self._whole: set[Any] = set()
        self._table: frozenset[Any] | None = None

    def decompose(self, operators: Iterable[Any]) -> None:
        """Let ExecuTorch decompose these operators although TensorRT takes them whole.

        For operators in ``kept_whole`` after :meth:`partition`: they were kept for an engine that did not come about.
        """
        self._decomposed = frozenset(operators)

    def leave_out(self, operators: Iterable[str]) -> None:
        """Keep operators out whose conversion has failed, by their names."""
        self._failed = frozenset(operators)

    def transform_for_pre_decomposition(self, ep: ExportedProgram) -> ExportedProgram:
        """Decompose what TensorRT wants decomposed, before ExecuTorch decomposes everything else."""
        if _has_engine_calls(ep):
            return ep
        self._ranges = dict(ep.range_constraints)
        load_torch_tensorrt()
        lowering = importlib.import_module("torch_tensorrt.dynamo.lowering")
        table = lowering.get_decompositions(
            False, decomposes_attention(self.options), False, use_fp32_acc=self.options.use_fp32_acc
        )
        add_decompositions(table)
        table[torch.ops.aten.view.default] = _view
        decomposed: ExportedProgram = in_default_layout(ep).run_decompositions(table)
        return decomposed

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Name the operators of this program that TensorRT takes whole, wherever they occur."""
        if _has_engine_calls(ep):
            return [], None
        return sorted(self._whole_operators(ep), key=str), None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of each future engine."""
        load_torch_tensorrt()
        prefer_own_backend()
        if _has_engine_calls(exported_program):
            proposal = propose_engine_calls(exported_program)
        else:
            support = NodeSupport(
                exported_program,
                excluded=self._excluded,
                failed_ops=self._failed,
                use_fp32_acc=self.options.use_fp32_acc,
                decompose_attention=decomposes_attention(self.options),
            )
            proposal = propose_partitions(exported_program, support, min_block_size=self._min_block_size)
        self.outside = outside_operators(proposal.outside)
        self.kept_whole = self._left_whole(proposal.outside)
        tags = self._tag(exported_program, proposal.partitions)
        tag_constant_data(exported_program)
        _untag_mutated_buffers(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)

    def _tag(
        self, program: ExportedProgram, partitions: Sequence[Sequence[torch.fx.Node]]
    ) -> dict[str, DelegationSpec]:
        tags: dict[str, DelegationSpec] = {}
        for index, nodes in enumerate(partitions):
            tag = f"tensorrt_{index}"
            for node in nodes:
                node.meta["delegation_tag"] = tag
                node.meta[RANGES_META] = self._ranges
            specs = self._specs_of(program, nodes)
            if index == 0:
                specs.append(self._report_spec(len(partitions)))
            tags[tag] = DelegationSpec(BACKEND_ID, specs)
        return tags

    def _specs_of(self, program: ExportedProgram, nodes: Sequence[torch.fx.Node]) -> list[CompileSpec]:
        specs = list(self.delegation_spec.compile_specs)
        calls = [node for node in nodes if is_engine_call(node)]
        if not calls:
            return specs
        # A compiled engine runs on the device that it was compiled for.
        compiled = importlib.import_module("torch_tensorrt_executorch_runtime.export._compiled_module")
        device = compiled.compiled_device(program, calls[0])
        if self._device is not None and self._device != device:
            raise ExportError(
                f"device is 'cuda:{self._device}', but the engine was compiled for 'cuda:{device}'. "
                "Leave device out, or compile the model for that device."
            )
        target = CompileSpec(TARGET_DEVICE_SPEC, f"cuda:{device}".encode("ascii"))
        return [spec if spec.key != TARGET_DEVICE_SPEC else target for spec in specs]

    def _report_spec(self, engines: int) -> CompileSpec:
        report = {"outside": [operator.to_dict() for operator in self.outside], "engines": engines}
        return CompileSpec(REPORT_SPEC, json.dumps(report, separators=(",", ":")).encode("ascii"))

    def _whole_operators(self, program: ExportedProgram) -> set[torch._ops.OpOverload]:
        load_torch_tensorrt()
        table = self._decomposable()
        candidates = [node for node in program.graph.nodes if node.target in table and _can_be_kept(node)]
        if not candidates:
            return set()
        support = NodeSupport(
            program,
            excluded=self._excluded,
            failed_ops=self._failed,
            use_fp32_acc=self.options.use_fp32_acc,
            decompose_attention=decomposes_attention(self.options),
        )
        refused = {node.target for node in candidates if not support.is_node_supported({}, node)}
        refused |= self._decomposed
        refused.update(_nested_targets(program.graph_module))
        whole = {node.target for node in candidates} - refused
        self._whole |= whole
        return whole

    def _decomposable(self) -> frozenset[Any]:
        # ExecuTorch asks several times per export, and the table takes a third of a second to make.
        if self._table is None:
            program = importlib.import_module("executorch.exir.program._program")
            self._table = frozenset(program._default_decomposition_table())
        return self._table

    def _left_whole(self, outside: Sequence[tuple[torch.fx.Node, str]]) -> frozenset[Any]:
        return frozenset({plain_overload(node.target) for node, _ in outside} & self._whole)


def _view(x: torch.Tensor, size: Sequence[int]) -> Any:
    """Keep a view, which Torch-TensorRT would replace by an operator that ExecuTorch has no kernel for."""
    if is_contiguous_or_false(x):
        return NotImplemented
    # A view that only the strides of this tensor allow. ExecuTorch's operators give tensors without gaps.
    return x.clone(memory_format=torch.contiguous_format).view(size)


def _check_names(options: dict[str, Any]) -> None:
    unknown = sorted(options.keys() - set(BuildOptions.names()))
    if unknown:
        raise TypeError(
            f"TensorRTPartitioner does not know {', '.join(unknown)}. Supported are compile_specs, device, "
            "torch_executed_ops, min_block_size, weight_streaming_budget_per_engine, use_cuda_graphs, "
            f"use_shared_activation_scratch, {', '.join(BuildOptions.names())}."
        )


def _can_be_kept(node: torch.fx.Node) -> bool:
    # ExecuTorch replaces views by copies, and computes sizes itself.
    operator: Any = node.target
    returns = operator._schema.returns
    return isinstance(node.meta.get("val"), torch.Tensor | list | tuple) and not any(
        value.alias_info is not None for value in returns
    )


def _has_engine_calls(program: ExportedProgram) -> bool:
    return any(is_engine_call(node) for node in program.graph.nodes)


def _nested_targets(module: torch.fx.GraphModule) -> list[Any]:
    # Operators in branches never reach TensorRT, so they must be decomposed for ExecuTorch's kernels.
    return [
        node.target
        for child in module.modules()
        if isinstance(child, torch.fx.GraphModule) and child is not module
        for node in child.graph.nodes
        if node.op == "call_function"
    ]


def _untag_mutated_buffers(program: ExportedProgram) -> None:
    # ExecuTorch notices a write only when it happens in a direct user of the buffer, and would otherwise freeze the
    # buffer's first value into the engine.
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        if node.op == "placeholder" and signature.inputs_to_buffers.get(node.name) in mutated:
            node.meta.pop("delegation_tag", None)
