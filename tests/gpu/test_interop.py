"""Files of the stock exporter on our delegate, and other partitioners behind ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import models

from .blobs import delegate_ids, find_blobs
from .results import Recorder

pytestmark = pytest.mark.gpu

STOCK = [("encoder", torch.float32), ("encoder", torch.float16), ("cos_erfinv_tanh", torch.float32)]


def compile_on_gpu(method: models.Method) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """Compile with Torch-TensorRT as its documents show; return the module and its inputs on the GPU."""
    import torch_tensorrt

    inputs = tuple(x.cuda() for x in method.inputs)
    program = torch.export.export(method.module.cuda(), inputs)
    return torch_tensorrt.dynamo.compile(program, arg_inputs=inputs, min_block_size=1), inputs


@pytest.mark.parametrize(("name", "dtype"), STOCK)
def test_a_stock_file_runs_and_ours_holds_the_same_engines(
    name: str, dtype: torch.dtype, tmp_path: Path, recorder: Recorder
) -> None:
    import torch_tensorrt

    from torch_tensorrt_executorch_runtime.export import save

    from .programs import load_with_test_kernels, short_name

    case = models.CASES[name]
    method = case.methods(dtype)["forward"]
    compiled, inputs = compile_on_gpu(method)
    stock, ours = tmp_path / "stock.pte", tmp_path / "ours.pte"
    torch_tensorrt.save(compiled, str(stock), output_format="executorch", retrace=False, arg_inputs=inputs)
    save(compiled, ours, arg_inputs=inputs, retrace=False)

    expected = method.expected(method.inputs)
    errors = {}
    for writer, path in (("stock", stock), ("ours", ours)):
        actual = load_with_test_kernels(path).execute(list(method.inputs))
        errors[writer] = max(models.relative_error(a, b) for a, b in zip(actual, expected, strict=True))
    recorder.note("stock_save", **{f"{name}_{short_name(dtype)}": errors})
    runs = recorder.check("stock_save.runs", errors["stock"], limit=case.tolerance(dtype), unit="relative error")
    digests = [[blob.digest for blob in find_blobs(path)] for path in (stock, ours)]
    assert digests[0], "the stock file holds no engine"
    same = recorder.equal("compiled_module.same_engines", digests[1], digests[0])
    assert runs, errors
    assert same, digests
    assert errors["ours"] <= case.tolerance(dtype), errors


def test_the_cuda_partitioner_takes_what_tensorrt_leaves(tmp_path: Path, recorder: Recorder) -> None:
    from executorch.backends.cuda.cuda_backend import CudaBackend
    from executorch.backends.cuda.cuda_partitioner import CudaPartitioner

    from torch_tensorrt_executorch_runtime.export import save

    method = models.CASES["cos_erfinv_tanh"].methods(torch.float32)["forward"]
    path = tmp_path / "model.pte"
    cuda = CudaPartitioner([CudaBackend.generate_method_name_compile_spec("forward")])
    save(method.export(), path, partitioners=[cuda])
    expected = ["TensorRTBackend", "CudaBackend", "TensorRTBackend"]
    assert recorder.equal("cuda_partitioner.delegates", delegate_ids(path), expected)
