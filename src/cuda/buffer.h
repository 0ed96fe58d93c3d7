#pragma once

#include <cstddef>
#include <memory>

#include "cuda/check.h"

namespace executorch::backends::tensorrt {

/// A block of memory that grows and stays. `Space` allocates and frees; see `DeviceBuffer` and
/// `PinnedBuffer`.
///
/// Growing frees the old block, so nothing that is still queued may use it: the owner waits for its work
/// first.
template <class Space>
class GrowingBuffer {
 public:
  /// Makes the block at least `size_bytes` large. The old block stays when there is no memory for a new one.
  Error reserve(size_t size_bytes) {
    if (size_bytes <= size_bytes_) {
      return Error::Ok;
    }
    void* raw = nullptr;
    ET_CHECK_OK_OR_RETURN_ERROR(check(Space::allocate(&raw, size_bytes), Space::kAllocate));
    block_.reset(raw);
    size_bytes_ = size_bytes;
    return Error::Ok;
  }

  void* data() const { return block_.get(); }
  size_t size_bytes() const { return size_bytes_; }

 private:
  struct Free {
    void operator()(void* block) const noexcept { log_failure(Space::free(block), Space::kFree); }
  };

  std::unique_ptr<void, Free> block_;
  size_t size_bytes_ = 0;
};

struct DeviceSpace {
  static constexpr const char* kAllocate = "cudaMalloc";
  static constexpr const char* kFree = "cudaFree";
  static cudaError_t allocate(void** block, size_t size_bytes) { return cudaMalloc(block, size_bytes); }
  static cudaError_t free(void* block) { return cudaFree(block); }
};

struct PinnedSpace {
  static constexpr const char* kAllocate = "cudaMallocHost";
  static constexpr const char* kFree = "cudaFreeHost";
  static cudaError_t allocate(void** block, size_t size_bytes) { return cudaMallocHost(block, size_bytes); }
  static cudaError_t free(void* block) { return cudaFreeHost(block); }
};

/// Memory on the device that is current when it grows.
using DeviceBuffer = GrowingBuffer<DeviceSpace>;

/// Page-locked host memory, which copies to and from the device without a stop-over.
using PinnedBuffer = GrowingBuffer<PinnedSpace>;

}  // namespace executorch::backends::tensorrt
