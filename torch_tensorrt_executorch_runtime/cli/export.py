"""``trt-executorch export``: a model to a ``.pte`` file."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from typing import Annotated, Any

import typer

from torch_tensorrt_executorch_runtime._errors import DelegateError, UnsupportedSourceError
from torch_tensorrt_executorch_runtime.cli import _output

__all__ = ["export", "load_source"]


def export(
    source: Annotated[
        str, typer.Argument(help="module:function, or a .pt2 file of torch.export.save.", show_default=False)
    ],
    output: Annotated[Path, typer.Argument(help="The .pte file to write.", show_default=False)],
    *,
    compute_capability: Annotated[
        list[str] | None,
        typer.Option(
            help="Build for this GPU only, such as 8.9. May be repeated. Default: all that TensorRT supports."
        ),
    ] = None,
    min_block_size: Annotated[
        int | None, typer.Option(help="Leave groups of fewer operators to ExecuTorch.", min=1)
    ] = None,
    weight_streaming_budget: Annotated[
        int | None, typer.Option(help="Bytes of each engine's weights to keep on the GPU.", min=0)
    ] = None,
    use_shared_activation_scratch: Annotated[
        bool | None,
        typer.Option(
            "--use-shared-activation-scratch/--no-use-shared-activation-scratch",
            help="Let the engines of a GPU take turns in one block of scratch memory. Default: left to the process.",
        ),
    ] = None,
    embed_runtime_cache: Annotated[
        bool, typer.Option(help="Compile the engines' kernels on this machine's GPU, and write them into the file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Export a model. No GPU is needed but for --embed-runtime-cache.

    The function takes no arguments. It returns what torch_tensorrt_executorch_runtime.export.save takes: an
    ExportedProgram, a dict of method names to ExportedPrograms, or a module compiled by Torch-TensorRT; or a module
    with its example inputs, as (module, arg_inputs) or (module, arg_inputs, dynamic_shapes).
    """
    model, options = load_source(source)
    given = {
        "compute_capabilities": compute_capability,
        "min_block_size": min_block_size,
        "weight_streaming_budget_per_engine": weight_streaming_budget,
        "use_shared_activation_scratch": use_shared_activation_scratch,
        "embed_runtime_cache": embed_runtime_cache or None,
    }
    options |= {name: value for name, value in given.items() if value is not None}
    from torch_tensorrt_executorch_runtime.export import save  # noqa: PLC0415 - imports torch

    try:
        report = save(model, output, **options)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DelegateError(f"{source} cannot be exported: {error}") from error
    if as_json:
        _output.print_json(report.to_dict())
    else:
        _output.console().print(str(report))


def load_source(source: str) -> tuple[Any, dict[str, Any]]:
    """Return the model and the keywords of ``save`` that come with it."""
    if source.endswith(".pt2"):
        return _load_pt2(Path(source)), {}
    made = _call(source)
    if not isinstance(made, tuple):
        return made, {}
    if not 2 <= len(made) <= 3:
        raise UnsupportedSourceError(
            f"{source} returned {len(made)} values; expected (module, arg_inputs) or "
            "(module, arg_inputs, dynamic_shapes)."
        )
    return made[0], dict(zip(("arg_inputs", "dynamic_shapes"), made[1:], strict=False))


def _load_pt2(path: Path) -> Any:
    if not path.is_file():
        raise DelegateError(f"{path} does not exist. Give a file that torch.export.save wrote, or module:function.")
    if not zipfile.is_zipfile(path):  # torch would log a traceback of its own
        raise DelegateError(f"{path} cannot be read as an exported program: it is no archive of torch.export.save.")
    import torch  # noqa: PLC0415

    _output.calm_loggers()  # again, because torch sets the level of this one when it is imported
    try:
        return torch.export.load(path)
    except Exception as error:  # whatever the unpickling of a foreign file raises
        raise DelegateError(f"{path} cannot be read as an exported program: {error}") from error


def _call(source: str) -> Any:
    module_name, _, function_name = source.partition(":")
    if not module_name or not function_name:
        raise UnsupportedSourceError(f"{source!r} is neither module:function nor the name of a .pt2 file.")
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does, so that a model beside the user is found
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        return function()
    except ModuleNotFoundError as error:
        raise DelegateError(
            f"{source}: the module {error.name} is not found. Run the command in its folder."
        ) from error
    except AttributeError as error:
        raise DelegateError(f"{source}: {error}.") from error
    except Exception as error:  # the user's own code: its error is theirs, but a sentence is ours
        raise DelegateError(f"{source} raised {type(error).__name__}: {error}") from error
