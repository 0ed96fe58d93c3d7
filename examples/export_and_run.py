"""The shortest way from a PyTorch module to a result: export it with TensorRT, load it, run it.

Exporting works on any machine. Running needs an NVIDIA GPU::

    python examples/export_and_run.py
"""

import torch
from executorch.runtime import Runtime

import torch_tensorrt_executorch_runtime  # noqa: F401  registers the delegate with ExecuTorch
from torch_tensorrt_executorch_runtime.export import save

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
x = torch.randn(8, 16)

print(save(model, "model.pte", arg_inputs=(x,)))

if torch.cuda.is_available():
    method = Runtime.get().load_program("model.pte").load_method("forward")
    (y,) = method.execute([x])
    print("largest difference from eager PyTorch:", (y - model(x)).abs().max().item())
else:
    print("model.pte is written; running it needs an NVIDIA GPU, and this machine has none.")
