"""Turns one partition into a delegate blob; ExecuTorch finds the class by its name."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import final

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from torch_tensorrt_executorch_runtime._blob import BlobMetadata, unpack_blob
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
        """Build the engines of all methods; equal ones become equal blobs, which ExecuTorch stores once."""
        results: dict[str, list[PreprocessResult]] = super().preprocess_multimethod(edge_programs, compile_specs)
        first: dict[BlobMetadata, bytes] = {}
        for result in (result for method in results.values() for result in method):
            # The metadata holds the engine's digest, and only the time differs between two builds of one engine.
            key = replace(unpack_blob(result.processed_bytes).metadata, build_seconds=None)
            result.processed_bytes = first.setdefault(key, result.processed_bytes)
        return results

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Build the partition's engine, or take the one that it calls, and pack it with its description.

        Args:
            edge_program: One partition. Its inputs and outputs are the delegate's arguments, in this order.
            compile_specs: The specs of the partitioner.

        Raises:
            ExportError: TensorRT refused the network, or the engine cannot serve the partition's arguments.
        """
        # Both modules need Torch-TensorRT, which is loaded no sooner than an engine is wanted.
        if any(is_engine_call(node) for node in edge_program.graph.nodes):
            compiled = importlib.import_module("torch_tensorrt_executorch_runtime.export._compiled_module")
            return PreprocessResult(processed_bytes=compiled.pack_compiled_engine(edge_program))
        builder = importlib.import_module("torch_tensorrt_executorch_runtime.export._engine_builder")
        blob = builder.build_blob(
            edge_program,
            options=BuildOptions.from_specs(compile_specs),
            device_id=device_index_of(compile_specs),
        )
        return PreprocessResult(processed_bytes=blob)
