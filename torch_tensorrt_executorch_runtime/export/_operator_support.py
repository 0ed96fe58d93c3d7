"""Which nodes TensorRT takes, and for every other node the reason."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.passes.dim_order_ops_registry import MemoryFormatOpsMap
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export._integers import rounds_integers
from torch_tensorrt_executorch_runtime.export._settings import ENGINE_DTYPES, use_settings
from torch_tensorrt_executorch_runtime.export._twin import build_twin

__all__ = [
    "ENGINE_OPERATORS",
    "ConversionError",
    "NodeSupport",
    "Reason",
    "excluded_names",
    "is_engine_call",
    "operator_name",
    "plain_overload",
]

ENGINE_OPERATORS = frozenset({"tensorrt::execute_engine", "tensorrt::no_op_placeholder_for_execute_engine"})

_POOLS_WITH_INDICES = frozenset(
    {
        torch.ops.aten.max_pool2d_with_indices.default,
        torch.ops.aten.max_pool3d_with_indices.default,
    }
)


class Reason:
    """Why a node stays outside of TensorRT: the texts of the report."""

    NO_CONVERTER = "TensorRT has no converter"
    EXCLUDED = "excluded by torch_executed_ops"
    COMPLEX = "complex numbers"
    DATA_DEPENDENT = "the output's shape depends on the input's values"
    CONTROL_FLOW = "control flow"
    FAILED = "Torch-TensorRT fails to convert it"
    REFUSED = "the converter refuses these arguments"
    OTHER_BACKEND = "already lowered to another backend"
    NOT_COMPILED = "not part of a compiled engine"
    SHAPE_ARITHMETIC = "size arithmetic that other operators need as well"
    SIZE_FROM_OUTSIDE = "needs a size that is computed outside of the engine"
    MEMORY_FORMAT = "a tensor at the engine's boundary is not in the default memory format"
    INTEGERS = "TensorRT would round or shorten these integers"
    EMPTY = "broadcasts to a tensor without elements"
    NO_COMPUTATION = "only moves or views data"
    NO_TENSOR_INPUT = "depends on no input"
    TOO_SMALL = "fewer operators than min_block_size"

    @staticmethod
    def dtype(dtype: torch.dtype) -> str:
        """Return the reason for a tensor of a type that engines do not take."""
        return f"{str(dtype).removeprefix('torch.')} tensor"


class ConversionError(ExportError):
    """An operator that TensorRT was thought to take could not be converted; ``operator`` is its name."""

    def __init__(self, text: str, *, operator: str) -> None:
        super().__init__(text)
        self.operator = operator


def operator_name(target: Any) -> str:
    """Return an operator's name as PyTorch prints it, such as ``aten.erfinv.default``."""
    overload = plain_overload(MemoryFormatOpsMap.get(target, target))
    if isinstance(overload, torch._ops.OpOverload):
        return str(overload)
    return str(getattr(target, "__name__", target))


def plain_overload(target: Any) -> Any:
    """Return the operator inside an edge operator; other targets are returned as they are."""
    return target._op if isinstance(target, EdgeOpOverload) else target


def is_engine_call(node: torch.fx.Node) -> bool:
    """Say whether the node runs an engine that Torch-TensorRT has compiled already."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.name in ENGINE_OPERATORS


class NodeSupport(OperatorSupportBase):
    """Decides for every node of one edge program; asked by PyTorch's partitioner.

    Args:
        program: The edge program. It is not changed, and its weights are not read.
        excluded: Operators that the caller keeps out of TensorRT, as :func:`excluded_names` gives them.
        failed_ops: Names of operators whose conversion has failed.
        use_fp32_acc: Must be what the engines are built with.
        decompose_attention: Must be what the engines are built with.
    """

    def __init__(
        self,
        program: ExportedProgram,
        *,
        excluded: frozenset[str] = frozenset(),
        failed_ops: Collection[str] = (),
        use_fp32_acc: bool = False,
        decompose_attention: bool = False,
    ) -> None:
        self._twin = build_twin(program)
        self._excluded = excluded
        registry = importlib.import_module("torch_tensorrt.dynamo.conversion._ConverterRegistry")
        self._failed = frozenset(failed_ops)
        self._converters = registry.DYNAMO_CONVERTERS
        use_settings(use_fp32_acc=use_fp32_acc, decompose_attention=decompose_attention)
        self.reasons: dict[torch.fx.Node, str] = {}
        for node, twin in self._twin.of.items():
            reason = self._reason(twin)
            if reason is not None:
                self.reasons[node] = reason

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> bool:
        """Say whether TensorRT takes the node."""
        del submodules
        return node.op == "call_function" and node not in self.reasons

    def refuse(self, node: torch.fx.Node, reason: str) -> None:
        """Keep a node outside that a converter would take."""
        self.reasons[node] = reason

    def aten(self, node: torch.fx.Node) -> Any:
        """Return the ATen operator that a node of the edge program stands for."""
        return self._twin.of[node].target

    def _reason(self, node: torch.fx.Node) -> str | None:
        if node.op != "call_function":
            return None
        return (
            self._structural_reason(node)
            or _value_reason(node)
            or (Reason.INTEGERS if rounds_integers(node) else None)
            or (Reason.EMPTY if _broadcasts_to_nothing(node) else None)
            or (None if _is_pool_without_indices(node) else self._converter_reason(node))
        )

    def _structural_reason(self, node: torch.fx.Node) -> str | None:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            name = str(getattr(node.target, "__name__", ""))
            return Reason.OTHER_BACKEND if "delegate" in name else Reason.CONTROL_FLOW
        if node.target is operator.getitem:
            producer = node.args[0]
            return self._reason(producer) if isinstance(producer, torch.fx.Node) else None
        if self._excluded & {operator_name(node.target), _packet_name(node.target)}:
            return Reason.EXCLUDED
        return Reason.FAILED if operator_name(node.target) in self._failed else None

    def _converter_reason(self, node: torch.fx.Node) -> str | None:
        if node.target is operator.getitem:
            return None
        converter = self._converters.get(node)
        if converter is not None:
            return Reason.DATA_DEPENDENT if converter[2].get("requires_output_allocator", False) else None
        known = self._converters.get_unvalidated(node.target) is not None
        return Reason.REFUSED if known else Reason.NO_CONVERTER


def _value_reason(node: torch.fx.Node) -> str | None:
    for value in (node.meta.get("val"), *(other.meta.get("val") for other in node.all_input_nodes)):
        for leaf in value if isinstance(value, list | tuple) else (value,):
            reason = _leaf_reason(leaf)
            if reason is not None:
                return reason
    return None


def _leaf_reason(leaf: Any) -> str | None:
    if isinstance(leaf, torch.SymInt):
        return Reason.DATA_DEPENDENT if _is_unbacked(leaf) else None
    if isinstance(leaf, torch.SymFloat | torch.SymBool):
        return Reason.SHAPE_ARITHMETIC
    if not isinstance(leaf, torch.Tensor):
        return None
    if leaf.dtype not in ENGINE_DTYPES:
        return Reason.COMPLEX if leaf.dtype.is_complex else Reason.dtype(leaf.dtype)
    if any(isinstance(size, torch.SymInt) and _is_unbacked(size) for size in leaf.shape):
        return Reason.DATA_DEPENDENT
    return None


def _broadcasts_to_nothing(node: torch.fx.Node) -> bool:
    # Torch-TensorRT broadcasts to the larger of two sizes, which for 0 and 1 should be 0.
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return False
    if not any(isinstance(size, int) and size == 0 for size in value.shape):
        return False
    shapes = [other.meta["val"].shape for other in node.all_input_nodes if isinstance(other.meta["val"], torch.Tensor)]
    scalars = [argument for argument in node.args if isinstance(argument, int | float)]
    return bool(scalars) or any(tuple(shape) != tuple(value.shape) for shape in shapes)


def _is_unbacked(size: torch.SymInt) -> bool:
    return not size.node.has_hint()


def _is_pool_without_indices(node: torch.fx.Node) -> bool:
    # Torch-TensorRT rewrites such a pool to one without indices before it converts the graph.
    pool = node.args[0] if node.target is operator.getitem else node
    return (
        isinstance(pool, torch.fx.Node)
        and pool.target in _POOLS_WITH_INDICES
        and len(pool.users) == 1
        and _has_plain_windows(pool)
        and all(user.target is operator.getitem and user.args[1] == 0 for user in pool.users)
    )


def _has_plain_windows(pool: torch.fx.Node) -> bool:
    # A pool without indices that is dilated or rounds its size up is refused only when it is converted.
    dilation: Any = pool.args[4] if len(pool.args) > 4 else pool.kwargs.get("dilation", ())
    ceil_mode = pool.args[5] if len(pool.args) > 5 else pool.kwargs.get("ceil_mode", False)
    return all(step == 1 for step in dilation) and not ceil_mode


def excluded_names(targets: Any) -> frozenset[str]:
    """Return the names of operators that the caller keeps out of TensorRT.

    Raises:
        TypeError: ``targets`` is no list or set.
        ValueError: One of them is no operator that PyTorch has.
    """
    if isinstance(targets, str) or not isinstance(targets, Collection):
        raise TypeError(
            f"torch_executed_ops is {targets!r}, but a list or set of operators is expected, such as ['aten.erf']."
        )
    return frozenset(map(_excluded_name, targets))


def _excluded_name(target: Any) -> str:
    if isinstance(target, str):
        name = target.removeprefix("torch.ops.")
        if not _is_operator(name):
            raise ValueError(
                f"torch_executed_ops holds {target!r}, but PyTorch has no such operator. Give torch.ops.aten.erf, "
                "torch.ops.aten.erf.default or a name such as 'aten.erf'; the export's report names what is in a model."
            )
        return name
    if isinstance(target, torch._ops.OpOverloadPacket):
        return _packet_name(target)
    return operator_name(target)


def _is_operator(name: str) -> bool:
    namespace, _, operator_and_overload = name.partition(".")
    packet_name, _, overload = operator_and_overload.partition(".")
    packet = getattr(getattr(torch.ops, namespace, None), packet_name, None) if packet_name else None
    return isinstance(packet, torch._ops.OpOverloadPacket) and overload in ("", *packet.overloads())  # type: ignore[no-untyped-call]


def _packet_name(target: Any) -> str:
    overload = plain_overload(target)
    return str(getattr(overload, "overloadpacket", overload))
