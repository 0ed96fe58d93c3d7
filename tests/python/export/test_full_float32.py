"""With ``disable_tf32`` an engine's float32 products keep their precision although TensorRT-RTX rounds each factor.

The rounding is simulated: every product of the module that the converters are given gets its factors as TF32.
"""

from __future__ import annotations

import importlib

import pytest
import torch
from export_helpers import One, Three, Two, check_bindings, lower_model
from torch import nn
from torch.nn import functional
from torch.utils import _pytree as pytree

from models import CASES, relative_error
from torch_tensorrt_executorch_runtime.export._full_float32 import _factors
from torch_tensorrt_executorch_runtime.export._options import BuildOptions

LIMIT = 1e-5


def as_tf32(x):
    """Round float32 to the 10 bits of TF32's mantissa, ties to even."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    odd = (bits >> 13) & 1
    return ((bits + 0xFFF + odd) & ~0x1FFF).view(torch.float32)


class Tf32(torch.fx.Interpreter):
    """Runs a module as a GPU does that rounds every factor of a product to TF32."""

    def call_function(self, target, args, kwargs):
        factors = _factors()
        # Every operator of Torch-TensorRT's own is taken for a product: one that is not split shows as an error.
        if target in factors or getattr(target, "namespace", "") == "tensorrt":
            positions = factors.get(target, (0, 1))
            args = tuple(as_tf32(x) if i in positions else x for i, x in enumerate(args))
        return super().call_function(target, args, kwargs)


def errors(module, *inputs, dynamic_shapes=None, calls=()):
    """Return the largest relative error of each output with TF32, and with ``disable_tf32``."""
    found = []
    for disable in (False, True):
        options = BuildOptions(disable_tf32=disable)
        result = lower_model(module, *inputs, disable_tf32=disable, dynamic_shapes=dynamic_shapes)
        assert len(result.blobs) == 1
        assert result.outside == {}
        check_bindings(result)
        worst = []
        for call in calls or (inputs,):
            with torch.no_grad():
                expected = pytree.tree_leaves(module(*call))
            actual = result.run(*call, options=options, runner=Tf32)
            worst.append([relative_error(a, b) for a, b in zip(actual, expected, strict=True)])
        found.append([max(output) for output in zip(*worst, strict=True)])
    return found


def layers(*kinds):
    torch.manual_seed(0)
    return nn.Sequential(*kinds).eval()


torch.manual_seed(0)  # a short sum such as `dot` may be right by chance
PRODUCTS = {
    "linear": (lambda: layers(nn.Linear(64, 32)), (torch.randn(8, 64),)),
    "linear_without_bias": (lambda: layers(nn.Linear(64, 32, bias=False)), (torch.randn(2, 8, 64),)),
    "convolution": (lambda: layers(nn.Conv2d(8, 16, 3, padding=1, stride=2)), (torch.randn(2, 8, 9, 9),)),
    "grouped": (lambda: layers(nn.Conv2d(8, 16, 3, groups=4, bias=False)), (torch.randn(2, 8, 9, 9),)),
    "depthwise": (lambda: layers(nn.Conv2d(8, 8, 3, groups=8)), (torch.randn(2, 8, 9, 9),)),
    "padded": (lambda: layers(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(8, 16, 3, stride=2)), (torch.randn(2, 8, 8, 8),)),
    "padded_depthwise": (
        lambda: layers(nn.ConstantPad2d((1, 2, 1, 2), 0.0), nn.Conv2d(8, 8, 5, stride=2, groups=8, bias=False)),
        (torch.randn(2, 8, 9, 9),),
    ),
    "transposed": (lambda: layers(nn.ConvTranspose2d(8, 4, 3, stride=2)), (torch.randn(2, 8, 5, 5),)),
    "one_dimension": (lambda: layers(nn.Conv1d(8, 4, 3, dilation=2)), (torch.randn(2, 8, 12),)),
    "three_dimensions": (lambda: layers(nn.Conv3d(4, 4, 3)), (torch.randn(1, 4, 5, 5, 5),)),
    "matmul": (lambda: Two(torch.matmul), (torch.randn(3, 8, 64), torch.randn(64, 5))),
    "bmm": (lambda: Two(torch.bmm), (torch.randn(3, 8, 64), torch.randn(3, 64, 5))),
    "vector": (lambda: Two(torch.mv), (torch.randn(8, 64), torch.randn(64))),
    "dot": (lambda: Two(torch.dot), (torch.rand(64), torch.rand(64))),
    "same_factor_twice": (lambda: One(lambda x: x @ x + x @ x.t()), (torch.randn(8, 8),)),
    "addmm": (
        lambda: Three(lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=3)),
        (torch.randn(5), torch.randn(8, 64), torch.randn(64, 5)),
    ),
    "baddbmm": (lambda: Three(torch.baddbmm), (torch.randn(3, 8, 5), torch.randn(3, 8, 64), torch.randn(3, 64, 5))),
    "einsum": (
        lambda: Two(lambda x, y: torch.einsum("bij,bkj->bik", x, y)),
        (torch.randn(2, 3, 64), torch.randn(2, 4, 64)),
    ),
    "attention": (
        lambda: Three(lambda x, y, z: functional.scaled_dot_product_attention(x, y, z, is_causal=True)),
        tuple(torch.randn(3, 1, 2, 16, 32).unbind()),
    ),
}


class Each(nn.Module):
    """All products in one model, each on its own inputs."""

    def __init__(self, modules, counts):
        super().__init__()
        self.parts = nn.ModuleList(modules)
        self.counts = counts

    def forward(self, *inputs):
        rest = iter(inputs)
        return [part(*(next(rest) for _ in range(count))) for part, count in zip(self.parts, self.counts, strict=True)]


def test_products_keep_float32_precision():
    inputs = [x for _, given in PRODUCTS.values() for x in given]
    each = Each([make() for make, _ in PRODUCTS.values()], [len(given) for _, given in PRODUCTS.values()])

    with_tf32, without = errors(each, *inputs)

    assert {name: error for name, error in zip(PRODUCTS, with_tf32, strict=True) if error < 2e-5} == {}
    assert {name: error for name, error in zip(PRODUCTS, without, strict=True) if error > LIMIT} == {}


@pytest.mark.parametrize("name", ["dynamic_encoder", "resnet18"])
def test_a_deep_network_stays_below_the_limit(name):
    case = CASES[name].methods(torch.float32)["forward"]

    (with_tf32,), (without,) = errors(
        case.module, *case.inputs, dynamic_shapes=case.dynamic_shapes, calls=case.calls[:3]
    )

    assert with_tf32 > 5e-5
    assert without < LIMIT


def test_every_product_of_torch_tensorrts_own_operators_is_known():
    """Its passes make operators that no exported program has; a new one may hold a product that nobody splits."""
    importlib.import_module("torch_tensorrt")
    operators = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("tensorrt::")}

    convolutions = {name for name in operators if "conv" in name or "mm" in name or "linear" in name}

    assert convolutions == {"tensorrt::conv_asym_pad"}


def test_half_precision_is_left_alone():
    options = BuildOptions(disable_tf32=True)
    for dtype in (torch.float16, torch.bfloat16):
        result = lower_model(layers(nn.Linear(64, 32)).to(dtype), torch.randn(8, 64).to(dtype), disable_tf32=True)
        module = result.given(options)
        assert sum(node.target in _factors() for node in module.graph.nodes) == 1


def test_distances_are_taken_without_a_matrix_product():
    x, y = torch.randn(1, 30, 4), torch.randn(1, 40, 4)
    result = lower_model(Two(lambda x, y: torch.ops.aten._cdist_forward(x, y, 2.0, 1)), x, y, disable_tf32=True)
    module = result.given(BuildOptions(disable_tf32=True))

    (distance,) = (node for node in module.graph.nodes if node.target is torch.ops.aten._cdist_forward.default)
    assert distance.args[3] == 2


def test_weights_are_split_when_the_model_is_exported():
    result = lower_model(layers(nn.Linear(64, 32)), torch.randn(8, 64), disable_tf32=True)
    module = result.given(BuildOptions(disable_tf32=True))

    casts = [node for node in module.graph.nodes if node.target is torch.ops.aten._to_copy.default]

    assert {node.all_input_nodes[0].op for node in casts} <= {"placeholder", "call_function"}
    assert len(casts) == 2


def test_tensorrt_itself_obeys_its_flag(monkeypatch):
    settings = importlib.import_module("torch_tensorrt_executorch_runtime.export._settings")
    monkeypatch.setattr(settings, "uses_tensorrt_rtx", lambda: False)

    assert not settings.splits_float32(BuildOptions(disable_tf32=True))
    assert not settings.decomposes_attention(BuildOptions(disable_tf32=True))
