#pragma once

#include <executorch/runtime/core/error.h>

#include <string>

namespace executorch::backends::tensorrt {

/// Checks that this process sees the GPU that an engine was exported for. `NotFound` without any GPU,
/// `DelegateInvalidCompatibility` when there are fewer, each after one sentence.
runtime::Error check_target_device(int device, const std::string& label);

}  // namespace executorch::backends::tensorrt
