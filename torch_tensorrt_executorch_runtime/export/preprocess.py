"""Turns partitions into delegate blobs; ExecuTorch finds the class by its name."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import final

from executorch.exir._serialize._named_data_store import NamedDataStore, NamedDataStoreOutput
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime._blob import BlobMetadata, unpack_blob
from torch_tensorrt_executorch_runtime.export import _progress
from torch_tensorrt_executorch_runtime.export._compiled_kernels import compile_kernels
from torch_tensorrt_executorch_runtime.export._equal_partitions import EqualPartitions
from torch_tensorrt_executorch_runtime.export._operator_support import is_engine_call
from torch_tensorrt_executorch_runtime.export._options import BuildOptions, device_index_of

__all__ = ["TensorRTBackend"]


@final
class TensorRTBackend(BackendDetails):  # type: ignore[misc]
    """The backend's compile-time half. Its name is the one under which the delegate registers at run time."""

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """Return the partition itself: it is only read here, and a copy would hold all weights once more."""
        del compile_specs
        return edge_program

    @classmethod
    def preprocess_multimethod(
        cls, edge_programs: dict[str, list[ExportedProgram]], compile_specs: dict[str, list[list[CompileSpec]]]
    ) -> dict[str, list[PreprocessResult]]:
        """Do for all partitions of all methods what :meth:`preprocess` does for one.

        Equal partitions are built once, and equal engines become equal blobs, which ExecuTorch stores once.
        """
        export = _Export()
        return {
            method: [
                export.result(program, specs) for program, specs in zip(programs, compile_specs[method], strict=True)
            ]
            for method, programs in edge_programs.items()
        }

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Build the partition's engine, or take the one that it calls, and pack it with its description.

        Args:
            edge_program: One partition. Its inputs and outputs are the delegate's arguments, in this order.
            compile_specs: The specs of the partitioner.

        Raises:
            ExportError: TensorRT refused the network, or the engine cannot serve the partition's arguments.
        """
        return _Export().result(edge_program, compile_specs)


class _Export:
    """The delegates that were made so far in one export."""

    def __init__(self) -> None:
        self._built = EqualPartitions[bytes]()
        self._packed: dict[BlobMetadata, bytes] = {}
        self._compiled: dict[bytes, tuple[str, bytes]] = {}
        self._kernels: dict[str, bytes] = {}

    def result(self, program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        options = BuildOptions.from_specs(specs)
        blob = self._shared(self._blob(program, options, device_index_of(specs)))
        kernels = self._named_kernels(blob) if options.embed_runtime_cache else None
        return PreprocessResult(processed_bytes=blob, data_store_output=kernels)

    def _blob(self, program: ExportedProgram, options: BuildOptions, device_id: int) -> bytes:
        # Both modules need Torch-TensorRT, which is loaded no sooner than an engine is wanted.
        if any(is_engine_call(node) for node in program.graph.nodes):
            compiled = importlib.import_module("torch_tensorrt_executorch_runtime.export._compiled_module")
            packed: bytes = compiled.pack_compiled_engine(program)
            return packed
        known = self._built.find(program, (options, device_id))
        if known is not None:
            _progress.engine_reused(size_bytes=len(known))
            return known
        builder = importlib.import_module("torch_tensorrt_executorch_runtime.export._engine_builder")
        built: bytes = builder.build_blob(program, options=options, device_id=device_id)
        self._built.add(program, (options, device_id), built)
        return built

    def _shared(self, blob: bytes) -> bytes:
        # The metadata holds the engine's digest, and only the time differs between two builds of one engine.
        return self._packed.setdefault(replace(unpack_blob(blob).metadata, build_seconds=None), blob)

    def _named_kernels(self, blob: bytes) -> NamedDataStoreOutput:
        if blob not in self._compiled:
            _progress.stage("compiling kernels")
            self._compiled[blob] = compile_kernels(blob)
        key, kernels = self._compiled[blob]
        store = NamedDataStore()
        # Compiling one engine twice may give other bytes, which ExecuTorch would refuse under the same key.
        store.add_named_data(key, self._kernels.setdefault(key, kernels))
        return store.get_named_data_store_output()
