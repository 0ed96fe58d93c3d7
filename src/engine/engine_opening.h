#pragma once

#include <executorch/runtime/core/result.h>

#include <cstdint>
#include <optional>
#include <string>

#include "blob/blob.h"
#include "tensorrt/objects.h"

namespace executorch::backends::tensorrt {

using runtime::Result;

struct OpenedEngine {
  Runtime& runtime;  ///< the library's, which stays for the life of the process
  Engine engine;
};

/// Finds the library for a blob's engine and deserializes it. `label` names the engine in sentences; one that
/// the library does not take is refused with both versions and both compute capabilities.
Result<OpenedEngine> open_engine(const Blob& blob, int device, const std::string& label);

/// Places the weights: `wanted` bytes stay on the GPU, else as many as TensorRT thinks best. Before the first
/// context is created.
Error set_weight_streaming_budget(Engine& engine, const std::optional<int64_t>& wanted,
                                  const std::string& label);

}  // namespace executorch::backends::tensorrt
