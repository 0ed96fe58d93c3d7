#pragma once

#include <executorch/runtime/core/error.h>

#include "executorch/device_allocator.h"

namespace executorch::backends::tensorrt {

/// The name in every program that holds TensorRT engines.
inline constexpr const char* kBackendName = "TensorRTBackend";

/// How registering with ExecuTorch went when this library was loaded.
struct Registration {
  AllocatorState allocator;
  runtime::Error error;
};

const Registration& registration();

}  // namespace executorch::backends::tensorrt
