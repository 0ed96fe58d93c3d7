"""Says how far single float32 operators of an engine are from exact, with TF32 and with `disable_tf32`.

python benchmarks/operator_precision.py [RESULT.json]

Every operator becomes an engine of its own and runs on random data; the relative error is against the same operator in
float64 on the CPU. An operator whose error stays near TF32's 5e-4 under `disable_tf32` is rounded somewhere else.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from executorch.runtime import Runtime
from torch import Tensor, nn

import torch_tensorrt_executorch_runtime  # noqa: F401  registers the delegate
from torch_tensorrt_executorch_runtime.export import save

OPERATORS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolution 3x3": (lambda: nn.Conv2d(64, 64, 3, padding=1), (1, 64, 28, 28)),
    "convolution 1x1": (lambda: nn.Conv2d(192, 320, 1, bias=False), (1, 192, 7, 7)),
    "convolution 3x3, stride 2": (lambda: nn.Conv2d(3, 32, 3, stride=2, bias=False), (1, 3, 225, 225)),
    "depthwise 3x3": (lambda: nn.Conv2d(96, 96, 3, padding=1, groups=96, bias=False), (1, 96, 56, 56)),
    "depthwise 5x5": (lambda: nn.Conv2d(240, 240, 5, padding=2, groups=240, bias=False), (1, 240, 28, 28)),
    "depthwise 5x5, stride 2": (lambda: nn.Conv2d(144, 144, 5, stride=2, groups=144, bias=False), (1, 144, 59, 59)),
    "grouped 3x3": (lambda: nn.Conv2d(64, 64, 3, padding=1, groups=4), (1, 64, 28, 28)),
    "batch norm": (lambda: nn.BatchNorm2d(96), (1, 96, 56, 56)),
    "convolution and batch norm": (
        lambda: nn.Sequential(nn.Conv2d(64, 64, 1, bias=False), nn.BatchNorm2d(64)),
        (1, 64, 28, 28),
    ),
    "depthwise and batch norm": (
        lambda: nn.Sequential(nn.Conv2d(96, 96, 3, padding=1, groups=96, bias=False), nn.BatchNorm2d(96)),
        (1, 96, 56, 56),
    ),
    "average pool": (lambda: nn.AdaptiveAvgPool2d(1), (1, 1280, 7, 7)),
    "linear": (lambda: nn.Linear(1280, 1000), (1, 1280)),
    "relu6": (nn.ReLU6, (1, 96, 56, 56)),
    "softmax": (lambda: nn.Softmax(-1), (4, 1000)),
    "layer norm": (lambda: nn.LayerNorm(256), (4, 64, 256)),
    "gelu": (nn.GELU, (4, 64, 256)),
}


def with_statistics(module: nn.Module) -> nn.Module:
    """Give batch norms the statistics of a trained model: means that are not 0, variances that are not 1."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 2)
            nn.init.normal_(part.bias)
            nn.init.normal_(part.running_mean)
            nn.init.uniform_(part.running_var, 0.01, 4)
    return module.eval()


def relative_error(actual: Tensor, exact: Tensor) -> float:
    return float((actual.double() - exact).norm() / exact.norm())


def measure(module: nn.Module, x: Tensor, path: Path, *, disable_tf32: bool) -> float:
    """Return the relative error of the operator's engine."""
    save(module, path, arg_inputs=(x,), disable_tf32=disable_tf32, progress=False)
    (actual,) = Runtime.get().load_program(path).load_method("forward").execute([x])
    with torch.no_grad():
        return relative_error(actual, module.double()(x.double()))


def main() -> None:
    results: dict[str, dict[str, float]] = {}
    print(f"{'operator':<30}{'with TF32':>12}{'disable_tf32':>14}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, shape) in OPERATORS.items():
            errors = {}
            for disable_tf32 in (False, True):
                torch.manual_seed(0)
                module, x = with_statistics(make()), torch.randn(shape)
                key = "disable_tf32" if disable_tf32 else "tf32"
                errors[key] = measure(module, x, Path(folder) / "operator.pte", disable_tf32=disable_tf32)
            results[name] = errors
            print(f"{name:<30}{errors['tf32']:>12.1e}{errors['disable_tf32']:>14.1e}", flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
