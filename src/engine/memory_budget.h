#pragma once

#include <executorch/runtime/core/error.h>

#include <cstdint>
#include <string>

namespace executorch::backends::tensorrt {

/// Bytes on one GPU, by what they are for.
struct MemoryUse {
  uint64_t weights = 0;
  uint64_t scratch = 0;
  uint64_t staging = 0;
  uint64_t graphs = 0;

  uint64_t total() const { return weights + scratch + staging + graphs; }
  /// "812.4 MB (weights 700.0 MB, scratch 100.0 MB, staging 12.4 MB, graphs 0.0 MB)"
  std::string text() const;
};

/// What all loaded engines of this process hold on a GPU: weights that several loads share, and the shared
/// scratch, once.
MemoryUse memory_in_use(int device);

/// Refuses with `MemoryAllocationFailed`, itemised, when `more` on top of what is in use on the GPU exceeds
/// the budget.
runtime::Error check_memory_budget(uint64_t budget_bytes, int device, const MemoryUse& more,
                                   const std::string& label);

}  // namespace executorch::backends::tensorrt
