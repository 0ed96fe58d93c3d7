"""``python -m torch_tensorrt_executorch_runtime`` is the command ``trt-executorch``."""

from torch_tensorrt_executorch_runtime.cli import main

main()
