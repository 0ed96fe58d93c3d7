"""Models with inputs, expected results and tolerances: one list for export tests, GPU tests and benchmarks.

A case is named as the result file names its check. ``case.methods(dtype)`` builds it anew, always with the same
weights and inputs::

    case = models.CASES["encoder"]
    for name, method in case.methods(torch.float16).items():
        program = method.export()
        expected = method.expected(method.inputs)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from . import nets

__all__ = ["CASES", "TOLERANCE", "Case", "Method", "relative_error"]

TOLERANCE: Mapping[torch.dtype, float] = {
    # TensorRT may multiply float32 in TF32, whose mantissa of 10 bits rounds each factor by up to 2**-11 = 5e-4;
    # sums of hundreds of such products average that down (measured: 8e-5 for the encoder block).
    torch.float32: 1e-3,
    # 10 bits as well, but weights and every intermediate tensor are rounded too (measured: 4e-4 to 6e-4).
    torch.float16: 1e-2,
    # 7 bits: eight times coarser than float16, in a tolerance that leaves float16 far more room than it needs.
    torch.bfloat16: 3e-2,
}
"""Largest relative error of a result against float32 eager, by the type the model computes in."""


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Return ``|actual - expected| / |expected|`` (2-norms, in float64); infinity for another shape or a NaN."""
    if actual.shape != expected.shape or not bool(torch.isfinite(actual).all()):
        return float("inf")
    a, b = actual.double().cpu(), expected.double().cpu()
    return float((a - b).norm() / b.norm().clamp_min(1e-30))


@dataclass(frozen=True)
class Method:
    """One method of a program: a module, the inputs it is exported with and those it is called with.

    ``reference`` computes in float32 what ``module`` computes in the case's type; ``calls`` starts with ``inputs``.
    """

    module: nn.Module
    reference: nn.Module
    inputs: tuple[Tensor, ...]
    dynamic_shapes: Any = None
    more_calls: tuple[tuple[Tensor, ...], ...] = ()

    @property
    def calls(self) -> tuple[tuple[Tensor, ...], ...]:
        return (self.inputs, *self.more_calls)

    def export(self) -> torch.export.ExportedProgram:
        """Export the module with ``torch.export``."""
        return torch.export.export(self.module, self.inputs, dynamic_shapes=self.dynamic_shapes)

    def expected(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return what eager PyTorch computes in float32 from the same inputs, always as a tuple."""
        half = (torch.float16, torch.bfloat16)
        wide = tuple(x.float() if x.dtype in half else x for x in inputs)
        with torch.no_grad():
            result = self.reference(*wide)
        return _as_tuple(result)

    def expected_exactly(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the float32 results rounded once to the types that the module itself returns."""
        with torch.no_grad():
            own = _as_tuple(self.module(*inputs))
        return tuple(y.to(kind.dtype) for y, kind in zip(self.expected(inputs), own, strict=True))


def _as_tuple(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


@dataclass(frozen=True)
class Case:
    """A program to export and run; ``exact`` means that results must be equal, not near."""

    name: str
    methods: Callable[[torch.dtype], dict[str, Method]]
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    exact: bool = False
    engines: int = 1
    outside: tuple[str, ...] = field(default=())

    def tolerance(self, dtype: torch.dtype) -> float:
        """Return the largest relative error allowed in ``dtype``."""
        return 0.0 if self.exact else TOLERANCE[dtype]


def _pair(make: Callable[[], nn.Module], dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    """Build the module in ``dtype`` and its float32 reference, both with the weights of one seed."""
    torch.manual_seed(0)
    reference = make().eval()
    torch.manual_seed(0)
    return make().eval().to(dtype), reference


def _normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _single(
    make: Callable[[], nn.Module],
    *inputs: Tensor,
    dtype: torch.dtype,
    dynamic_shapes: Any = None,
    more_calls: tuple[tuple[Tensor, ...], ...] = (),
) -> dict[str, Method]:
    module, reference = _pair(make, dtype)
    return {"forward": Method(module, reference, inputs, dynamic_shapes, more_calls)}


def _resnet18(dtype: torch.dtype) -> dict[str, Method]:
    return _single(nets.ResNet18, _normal(1, 3, 224, 224, dtype=dtype), dtype=dtype)


def _encoder(dtype: torch.dtype) -> dict[str, Method]:
    return _single(nets.EncoderBlock, _normal(2, 64, 256, dtype=dtype), dtype=dtype)


def _vision_transformer(dtype: torch.dtype) -> dict[str, Method]:
    return _single(nets.VisionTransformer, _normal(2, 3, 64, 64, dtype=dtype), dtype=dtype)


def _relative_attention(dtype: torch.dtype) -> dict[str, Method]:
    batches = {0: torch.export.Dim("batch", min=1, max=4)}
    calls = tuple((_normal(batch, 16, 64, dtype=dtype, seed=batch),) for batch in (1, 4, 2))
    first = _normal(3, 16, 64, dtype=dtype)
    return _single(nets.RelativeAttention, first, dtype=dtype, dynamic_shapes=(batches,), more_calls=calls)


def _cos_erfinv_tanh(dtype: torch.dtype) -> dict[str, Method]:
    return _single(nets.CosErfinvTanh, _normal(4, 128, dtype=dtype), dtype=dtype)


def _three_inputs(dtype: torch.dtype) -> dict[str, Method]:
    # Small integers: the result is exact in every float type, so a swapped input cannot hide in a tolerance.
    a, b, c = (torch.arange(12.0).reshape(3, 4).to(dtype) * step for step in (1, 3, 7))
    return _single(nets.ThreeInputs, a, b, c, dtype=dtype)


def _four_outputs(dtype: torch.dtype) -> dict[str, Method]:
    # Multiples of 1/8 below 8: exact in float16, and no two columns of a row are equal, so argmax has one answer.
    x = (torch.randperm(32, generator=torch.Generator().manual_seed(2)).reshape(4, 8) - 16) / 8
    return _single(nets.FourOutputs, x.to(dtype), dtype=dtype)


def _int64(dtype: torch.dtype) -> dict[str, Method]:
    edge = 2**31
    x = torch.tensor([0, 1, -1, edge - 1, edge, edge + 1, -edge, -edge - 1, 2**40, -(2**40), 2**53 + 1, 7])
    y = torch.tensor([5, -1, edge, 1, 1, -edge, -1, 1, 2**40, 3, 1, 2**40 + 1])
    return _single(nets.Int64, x, y, dtype=dtype)


def _bool(dtype: torch.dtype) -> dict[str, Method]:
    methods = {}
    for elements in (1, 3, 17):  # lengths that no vector width divides
        bits = torch.randint(0, 2, (2, elements), generator=torch.Generator().manual_seed(elements)).bool()
        other = (~bits[0], bits[1], _normal(elements, seed=4))
        methods |= {
            f"elements_{elements}": _single(
                nets.BoolLogic, bits[0], bits[1], _normal(elements, seed=3), dtype=dtype, more_calls=(other,)
            )["forward"]
        }
    return methods


def _zero_dim(dtype: torch.dtype) -> dict[str, Method]:
    x = torch.arange(8.0).to(dtype)
    other = (x + 1, torch.tensor(-2.0, dtype=dtype))
    return _single(nets.ZeroDim, x, torch.tensor(0.5, dtype=dtype), dtype=dtype, more_calls=(other,))


def _empty(dtype: torch.dtype) -> dict[str, Method]:
    y = torch.ones(2, 4, dtype=dtype)
    rows = {0: torch.export.Dim("rows", min=0, max=8)}
    calls = tuple((_normal(count, 4, dtype=dtype), y) for count in (0, 8, 0, 1))
    never = _single(nets.EmptyRows, torch.zeros(0, 4, dtype=dtype), y, dtype=dtype)
    some = _single(
        nets.EmptyRows, _normal(3, 4, dtype=dtype), y, dtype=dtype, dynamic_shapes=(rows, None), more_calls=calls
    )
    return {"never_any": never["forward"], "sometimes_some": some["forward"]}


DYNAMIC_BATCH = (1, 8)
DYNAMIC_LENGTH = (2, 128)


def _dynamic_encoder(dtype: torch.dtype) -> dict[str, Method]:
    sizes = random.Random(0)
    pairs = [(1, 2), (8, 128), (1, 128), (8, 2)]
    pairs += [(sizes.randint(*DYNAMIC_BATCH), sizes.randint(*DYNAMIC_LENGTH)) for _ in range(20)]
    calls = tuple((_normal(b, t, 256, dtype=dtype, seed=10 + i),) for i, (b, t) in enumerate(pairs))
    dims = {
        0: torch.export.Dim("batch", min=DYNAMIC_BATCH[0], max=DYNAMIC_BATCH[1]),
        1: torch.export.Dim("length", min=DYNAMIC_LENGTH[0], max=DYNAMIC_LENGTH[1]),
    }
    first = _normal(2, 64, 256, dtype=dtype)
    return _single(nets.EncoderBlock, first, dtype=dtype, dynamic_shapes=(dims,), more_calls=calls)


def _two_methods(dtype: torch.dtype) -> dict[str, Method]:
    encode = _pair(lambda: nets.Project(16, 32), dtype)
    decode = _pair(lambda: nets.Project(32, 16), dtype)
    return {
        "encode": Method(*encode, (_normal(4, 16, dtype=dtype),)),
        "decode": Method(*decode, (_normal(4, 32, dtype=dtype),)),
    }


_F32_F16 = (torch.float32, torch.float16)

CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case("resnet18", _resnet18, dtypes=_F32_F16),
        Case("encoder", _encoder, dtypes=(*_F32_F16, torch.bfloat16)),
        Case("vision_transformer", _vision_transformer, dtypes=(*_F32_F16, torch.bfloat16)),
        Case("relative_attention", _relative_attention, dtypes=(*_F32_F16, torch.bfloat16)),
        Case("cos_erfinv_tanh", _cos_erfinv_tanh, engines=2, outside=("aten.erfinv.default",)),
        Case("three_inputs", _three_inputs, dtypes=_F32_F16, exact=True),
        Case("four_outputs", _four_outputs, exact=True),
        Case("int64", _int64, exact=True),
        Case("bool", _bool, exact=True, engines=3),
        Case("zero_dim", _zero_dim, dtypes=_F32_F16, exact=True),
        Case("empty", _empty, exact=True, engines=2),
        Case("dynamic_encoder", _dynamic_encoder, dtypes=_F32_F16),
        Case("two_methods", _two_methods, engines=2),
    )
}
"""Every case by name."""
