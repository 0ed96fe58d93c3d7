#pragma once

#include <executorch/runtime/core/result.h>

#include <cstddef>
#include <string>

#include "cuda/check.h"

namespace executorch::backends::tensorrt {

using runtime::Result;

/// What the driver says of one GPU.
struct DeviceInfo {
  std::string name;
  std::string compute_capability;  ///< such as "9.0"
  size_t memory_bytes;
};

/// How many GPUs there are. Without a driver, or without a GPU, `NotFound` and a sentence.
Result<int> device_count();

Result<DeviceInfo> device_info(int device);

/// Whether the GPU has no memory of its own but shares the host's, as on a Jetson.
Result<bool> is_integrated(int device);

/// Free memory of the current GPU, for accounts; 0 when CUDA does not say.
size_t free_device_bytes();

}  // namespace executorch::backends::tensorrt
