"""Both packages write their programs, whichever was imported first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OURS_FIRST = """
import torch_tensorrt_executorch_runtime.export
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt
load_torch_tensorrt()
import torch_tensorrt.executorch
"""
STOCK_FIRST = """
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt
load_torch_tensorrt()
import torch_tensorrt.executorch
import torch_tensorrt_executorch_runtime.export
"""
BOTH_FLOWS = """
import sys
import torch
from compiled_models import compile_module, engines_in
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.backend.backend_api import to_backend
from export_helpers import One, blobs_of
from pathlib import Path
from torch_tensorrt_executorch_runtime.export import TensorRTPartitioner, save

folder = Path(sys.argv[1])
x = torch.rand(4, 8)
module = One(lambda x: torch.cos(torch.erfinv(torch.tanh(x)))).eval()
compiled = compile_module(module, (x,))
torch_tensorrt.save(compiled, str(folder / "stock.pte"), output_format="executorch", retrace=False)
save(module, folder / "native.pte", arg_inputs=(x,))
save(compiled, folder / "compiled.pte")
torch_tensorrt.save(compiled, str(folder / "again.pte"), output_format="executorch", retrace=False)
assert len(blobs_of(folder / "native.pte")) == 2
assert blobs_of(folder / "native.pte")[0].metadata.engine_sha256
for name in ("compiled", "stock", "again"):
    assert [bytes(blob.engine) for blob in blobs_of(folder / f"{name}.pte")] == engines_in(compiled), name
assert blobs_of(folder / "compiled.pte")[0].metadata.engine_sha256

# The other entry point of ExecuTorch, which takes the first class of the name instead of the last.
edge = to_edge(torch.export.export(module, (x,)), compile_config=EdgeCompileConfig(_check_ir_validity=False))
lowered = to_backend(edge.exported_program(), TensorRTPartitioner())
assert sum("lowered_module" in name for name, _ in lowered.graph_module.named_children()) == 2
print("all right")
"""


@pytest.mark.parametrize("order", [OURS_FIRST, STOCK_FIRST], ids=["ours_first", "stock_first"])
def test_both_flows_work(order, tmp_path):
    here = Path(__file__).parent
    paths = [str(here), str(here.parents[1]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    result = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import torch_tensorrt_executorch_runtime\n{order}\nimport torch_tensorrt\n{BOTH_FLOWS}",
            tmp_path,
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.stdout.strip().endswith("all right"), result.stderr[-3000:]


def test_the_guard_can_be_taken_back():
    from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt

    load_torch_tensorrt()
    from torch_tensorrt.executorch import TensorRTBackend as StockBackend

    from torch_tensorrt_executorch_runtime.export._backend_lookup import prefer_own_backend, restore_other_backend

    before = dict(StockBackend.__dict__)
    prefer_own_backend()
    guarded = dict(StockBackend.__dict__)
    prefer_own_backend()
    assert guarded["preprocess"] is not before["preprocess"]
    assert dict(StockBackend.__dict__) == guarded
    restore_other_backend()
    assert dict(StockBackend.__dict__) == before
