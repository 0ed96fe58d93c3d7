"""Attention in half precision is given as products, which TensorRT-RTX joins to one kernel; other stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import tensorrt_rtx
import torch
from export_helpers import DEFAULTS, Result, check_against_eager, check_bindings, lower_model
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from torch_tensorrt_executorch_runtime.export import _interpreter
from torch_tensorrt_executorch_runtime.export._options import BuildOptions

HALF, BRAIN = torch.float16, torch.bfloat16


class Heads(nn.Module):
    """Attention of given heads, whose results are tokens again."""

    def __init__(self, further: Callable[[Tensor], dict[str, Any]] = lambda q: {}) -> None:
        super().__init__()
        self.further = further

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        y = functional.scaled_dot_product_attention(q, k, v, **self.further(q))
        return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


def heads(
    queries: int,
    keys: int,
    width: int,
    *,
    dtype: torch.dtype = HALF,
    batch: int = 2,
    count: int = 4,
) -> tuple[Tensor, ...]:
    """Return queries, keys and values."""
    torch.manual_seed(0)
    shapes = [(queries, width), (keys, width), (keys, width)]
    return tuple(torch.randn(batch, count, *shape).to(dtype) for shape in shapes)


def products(result: Result, options: BuildOptions = DEFAULTS) -> int:
    """Return how many products of batches the engine is given."""
    module = result.given(options)
    return len(module.graph.find_nodes(op="call_function", target=torch.ops.aten.bmm.default))


JOINED = {
    "self-attention": heads(50, 50, 32),
    "bfloat16": heads(50, 50, 32, dtype=BRAIN),
    "one batch": heads(64, 64, 64, batch=1),
    "one head": heads(64, 64, 64, count=1),
    "one query": heads(1, 40, 64),
    "few keys": heads(40, 2, 64),
    "narrow": heads(33, 33, 16),
    "odd width": heads(33, 33, 24),
    "wide": heads(20, 20, 256),
    "other tokens": heads(10, 300, 64),
}


@pytest.mark.parametrize("name", JOINED)
def test_is_given_as_products(name: str) -> None:
    module, inputs = Heads(), JOINED[name]
    result = lower_model(module, *inputs)

    assert products(result) == 2
    check_against_eager(result, module, *inputs)
    check_bindings(result)


def test_keeps_a_scale_that_was_given() -> None:
    module, inputs = Heads(lambda q: {"scale": 0.01}), heads(20, 20, 32)
    result = lower_model(module, *inputs)

    assert products(result) == 2
    check_against_eager(result, module, *inputs)


LEFT = {
    "float32": (Heads(), heads(20, 20, 32, dtype=torch.float32)),
    "narrow heads": (Heads(), heads(20, 20, 8)),
    "width that is no multiple of eight": (Heads(), heads(20, 20, 20)),
    "one key": (Heads(), heads(20, 1, 32)),
    "causal": (Heads(lambda q: {"is_causal": True}), heads(20, 20, 32)),
    "mask": (Heads(lambda q: {"attn_mask": q[..., :20] > 0}), heads(20, 20, 32)),
}


@pytest.mark.parametrize("name", LEFT)
def test_is_left_alone_otherwise(name: str) -> None:
    module, inputs = LEFT[name]
    result = lower_model(module, *inputs)

    assert products(result) == 0
    check_against_eager(result, module, *inputs)


def test_is_left_alone_where_sizes_change() -> None:
    batches = {0: Dim("batch", min=1, max=4)}
    result = lower_model(Heads(), *heads(20, 20, 32), dynamic_shapes=(batches,) * 3)

    assert products(result) == 0


def test_is_left_alone_where_products_add_up_in_float32() -> None:
    result = lower_model(Heads(), *heads(20, 20, 32))

    assert products(result, BuildOptions(use_fp32_acc=True)) == 0


class Recording(tensorrt_rtx.ILogger):  # type: ignore[misc]
    """Keeps what TensorRT-RTX says."""

    def __init__(self) -> None:
        tensorrt_rtx.ILogger.__init__(self)
        self.lines: list[str] = []

    def log(self, severity: Any, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize("name", JOINED)
def test_is_joined_to_one_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT-RTX lists its kernels when it is asked to profile them."""
    logger = Recording()
    configure = _interpreter._Interpreter._populate_trt_builder_config

    def detailed(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = configure(self, *args, **kwargs)
        config.profiling_verbosity = tensorrt_rtx.ProfilingVerbosity.DETAILED
        return config

    monkeypatch.setattr(_interpreter._conversion, "TRT_LOGGER", logger)
    monkeypatch.setattr(_interpreter._Interpreter, "_populate_trt_builder_config", detailed)
    lower_model(Heads(), *JOINED[name])

    kernels = re.findall(r"^Name: (.+?), LayerType", "\n".join(logger.lines), re.MULTILINE)
    assert len([kernel for kernel in kernels if "mha" in kernel]) == 1, kernels
