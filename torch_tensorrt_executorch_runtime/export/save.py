"""From a model to a ``.pte`` file, all or nothing."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.exir import ExecutorchBackendConfig, ExecutorchProgramManager

from torch_tensorrt_executorch_runtime._errors import ExportError
from torch_tensorrt_executorch_runtime.export import _progress
from torch_tensorrt_executorch_runtime.export._files import NewFiles, check_path
from torch_tensorrt_executorch_runtime.export._host_access import refuse_host_access
from torch_tensorrt_executorch_runtime.export._kernels import misplaces_hits, missing_kernels
from torch_tensorrt_executorch_runtime.export._keywords import LowerKeywords, SaveKeywords, check_keywords
from torch_tensorrt_executorch_runtime.export._stream_order import mark_results_in_stream_order
from torch_tensorrt_executorch_runtime.export._written import WrittenEngines, engines_of, read_engines
from torch_tensorrt_executorch_runtime.export.lower import Lowered, lower_methods
from torch_tensorrt_executorch_runtime.export.memory_planning import device_safe_config
from torch_tensorrt_executorch_runtime.export.report import ExportReport, WrittenFile

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["save", "save_program"]

_LOGGER = logging.getLogger("torch_tensorrt_executorch_runtime.export")


def save(source: Any, path: str | os.PathLike[str], **options: Unpack[SaveKeywords]) -> ExportReport:
    """Write a model as one ``.pte`` file whose supported parts are TensorRT engines.

    The source is not changed. Nothing is left at ``path`` unless everything succeeded: the files are written to a
    folder beside it, read back and checked, and then renamed. No GPU is needed with TensorRT-RTX.

    Args:
        source: A ``torch.nn.Module`` in eval mode (with ``arg_inputs``), a ``torch.export.ExportedProgram``, a
            ``GraphModule`` compiled by ``torch_tensorrt.dynamo.compile`` (its engines are embedded as they are), or a
            dict of method names to ``ExportedProgram``.
        path: The file to write. Its folder must exist.
        **options: Keywords, all optional:

            * ``arg_inputs`` (or ``inputs``), ``kwarg_inputs``: example inputs, tensors or ``torch_tensorrt.Input``.
            * ``dynamic_shapes``: as for ``torch.export.export``; each dynamic size needs a largest value.
            * ``retrace``, ``use_legacy_exporter``: for compiled modules, as in ``torch_tensorrt.save``.
            * ``partitioners``: run after TensorRT's, a list or a dict per method.
            * ``compile_specs``, ``constant_methods``, ``transform_passes``, ``compile_config``, ``backend_config``:
              passed to ExecuTorch.
            * ``generate_etrecord``: also write ``<name>_etrecord.bin``.
            * ``device``: CUDA device to run on, ``"cuda:0"`` by default.
            * ``compute_capabilities``: GPUs to build for, such as ``["8.6", "8.9"]``; by default all of them.
            * ``torch_executed_ops``: operators to keep out of TensorRT, as targets or names.
            * ``min_block_size``: the fewest computing operators of an engine, 1 by default.
            * ``use_cuda_graphs``: record each engine as a CUDA graph when it runs.
            * ``use_shared_activation_scratch``: let the engines of a GPU take turns in one block of scratch memory.
            * ``weight_streaming_budget_per_engine``: bytes of weights that stay on the GPU.
            * ``disable_tf32``: keep float32 products as precise as float32, which TensorRT rounds to TF32 by default
              (relative errors of 1e-4 to 2e-3). With TensorRT-RTX this takes three products for one.
            * ``workspace_size``, ``optimization_level``, ``max_aux_streams``, ``use_fp32_acc``,
              ``decompose_attention``, ``enable_weight_streaming``: as for ``torch_tensorrt.dynamo.compile``.
            * ``embed_runtime_cache``: compile the kernels of TensorRT-RTX engines on this machine's GPU, and write them
              into the file. The first load with such a GPU and the same TensorRT-RTX then compiles nothing.
            * ``zero_copy_kv``: only False.
            * ``require_engine``: refuse a program without any engine, True by default.
            * ``progress``: True shows a progress bar, False none, None only on a terminal.
            * ``output_format``, ``extra_files``, ``pickle_protocol``: taken for the sake of ``torch_tensorrt.save``;
              the format is ``"executorch"``, the others have no meaning in it.

    Returns:
        The engines, what stayed outside and why, and the files.

    Raises:
        ExportError: The model cannot be exported as asked; the text says what to change.
        UnsupportedSourceError: The source is of another kind (an ExportError and a TypeError).
        OSError: The folder does not exist or cannot be written; found out before anything is built.
        TypeError: An unknown keyword; the text lists all. Or an option of the wrong type.
        ValueError: An option that does not fit the source.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.Softmax(-1)).eval()
        >>> report = save(model, "model.pte", arg_inputs=(torch.zeros(8, 16),))
        >>> report.delegates["forward"]
        ('TensorRTBackend',)
    """
    check_keywords("save", options, SaveKeywords)
    return save_program(source, path, options)


def save_program(
    source: Any, path: str | os.PathLike[str], options: Mapping[str, Any], *, keep_data_names: bool = False
) -> ExportReport:
    """Do the work of :func:`save`; ``options`` are its keywords, already checked.

    Args:
        source: See :func:`save`.
        path: See :func:`save`.
        options: See :func:`save`.
        keep_data_names: Give ``.ptd`` files the names that their backends chose, not the model's.
    """
    target = check_path(path)
    if options.get("output_format", "executorch") != "executorch":
        raise ValueError(f"output_format is {options['output_format']!r}, but save writes 'executorch' only.")
    with _progress.show_progress(options.get("progress")):
        names = LowerKeywords.__annotations__.keys()
        lowered = lower_methods(source, {key: value for key, value in options.items() if key in names})
        expected = engines_of(lowered.manager)
        notes = _check_engines(lowered, expected, require=bool(options.get("require_engine", True)))
        notes += _index_notes(lowered)
        _progress.stage("planning memory")
        program = _to_executorch(lowered, options.get("backend_config"))
        _progress.stage("writing")
        with NewFiles(target) as files:
            _write(program, files, keep_data_names=keep_data_names, etrecord=bool(options.get("generate_etrecord")))
            written = read_engines(files.program)
            _check_written(written, expected, target)
            notes += _kernel_notes(written)
            paths = files.publish()
    return ExportReport(
        methods=tuple(lowered.methods),
        engines=written.engines,
        outside=lowered.outside,
        files=tuple(WrittenFile(file, file.stat().st_size) for file in paths),
        delegates=written.delegates,
        warnings=tuple(notes),
    )


def _check_engines(lowered: Lowered, digests: Mapping[str, Sequence[str]], *, require: bool) -> list[str]:
    for name, method in lowered.methods.items():
        if method.compiled_engines != len(digests[name]) and method.compiled_engines:
            raise ExportError(
                f"Method {name!r} came with {method.compiled_engines} compiled engines, but {len(digests[name])} are "
                "left after lowering. Export with retrace=False, and without transform passes that remove operators."
            )
    without = [name for name, engines in digests.items() if not engines]
    if not without:
        return []
    reasons = "; ".join(
        f"{entry.op} x{entry.count}: {entry.reason}" for entry in lowered.outside if entry.method in without
    )
    text = f"TensorRT takes nothing of method {', '.join(map(repr, without))} ({reasons or 'it computes nothing'})."
    if require and len(without) == len(digests):
        raise ExportError(f"{text} Pass require_engine=False to write the program without an engine.")
    return _warned(text)


def _to_executorch(lowered: Lowered, config: ExecutorchBackendConfig | None) -> ExecutorchProgramManager:
    methods = tuple(lowered.methods)
    safe = device_safe_config(config, methods)
    mark_results_in_stream_order(lowered.manager, safe, methods)
    try:
        program = lowered.manager.to_executorch(config=safe)
    except RuntimeError as error:
        text = str(error).rstrip(".")
        raise ExportError(f"ExecuTorch could not finish the program: {text}.{_hint(text)}") from error
    refuse_host_access(program, safe, methods)
    return program


def _hint(text: str) -> str:
    if "out variant" in text.lower():
        return (
            " ExecuTorch has no kernel for these operators, and TensorRT does not take them. Add a partitioner that "
            "does (partitioners=[...]), or change the model."
        )
    if "exactly one user" in text:
        return " Leave skip_h2d_for_method_inputs out for this method."
    return ""


def _index_notes(lowered: Lowered) -> list[str]:
    misplacing = [name for name in lowered.methods if misplaces_hits(lowered.manager.exported_program(name))]
    if not misplacing:
        return []
    return _warned(
        f"Method {', '.join(map(repr, misplacing))} calls torch.nonzero on a tensor with two or more dimensions, for "
        "which ExecuTorch 1.5 gives wrong indices. Call it on x.flatten() and work out the indices from there."
    )


def _kernel_notes(written: WrittenEngines) -> list[str]:
    missing = missing_kernels(written.operators)
    if not missing:
        return []
    return _warned(
        f"The installed ExecuTorch has no kernel for {', '.join(missing)}. The program loads only where one is "
        "registered; or add a partitioner that takes these operators (partitioners=[...])."
    )


def _warned(text: str) -> list[str]:
    _LOGGER.warning("%s", text)
    return [text]


def _write(program: ExecutorchProgramManager, files: NewFiles, *, keep_data_names: bool, etrecord: bool) -> None:
    with files.program.open("wb") as file:
        program.write_to_file(file)
    data = program._tensor_data or {}
    for tag, cord in data.items():
        with files.add_data(tag, alone=len(data) == 1, keep_name=keep_data_names).open("wb") as file:
            cord.write_to_file(file)
    if etrecord:
        program.get_etrecord().save(str(files.add(f"{files.stem}_etrecord.bin")))


def _check_written(written: WrittenEngines, expected: Mapping[str, Sequence[str]], target: Path) -> None:
    found = {name: [engine.sha256 for engine in written.engines if engine.method == name] for name in expected}
    for name, digests in expected.items():
        if Counter(found[name]) != Counter(digests):
            raise ExportError(
                f"Method {name!r} has {len(digests)} engines, but {len(found[name])} of them, or others, are in the "
                f"file for {target}. The file was removed. Please report this with the model."
            )
