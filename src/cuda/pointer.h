#pragma once

#include <executorch/runtime/core/result.h>

#include "cuda/check.h"

namespace executorch::backends::tensorrt {

using runtime::Result;

/// What kind of memory an address is. A tensor's device tag is only a claim; this is what CUDA knows.
enum class MemoryKind {
  kPageable,  ///< ordinary host memory, unknown to CUDA
  kPinned,    ///< page-locked host memory
  kDevice,    ///< memory of one GPU
  kManaged,   ///< managed memory, which every GPU may read
};

struct PointerInfo {
  MemoryKind kind;
  int device;      ///< the GPU that owns it; meaningful for kDevice only
  bool is_mapped;  ///< whether a GPU reaches it by the same address
};

/// Asks CUDA about an address.
inline Result<PointerInfo> describe_pointer(const void* address) {
  cudaPointerAttributes attributes{};
  ET_CHECK_OK_OR_RETURN_ERROR(
      check(cudaPointerGetAttributes(&attributes, address), "cudaPointerGetAttributes"));
  const MemoryKind kind = attributes.type == cudaMemoryTypeDevice    ? MemoryKind::kDevice
                          : attributes.type == cudaMemoryTypeManaged ? MemoryKind::kManaged
                          : attributes.type == cudaMemoryTypeHost    ? MemoryKind::kPinned
                                                                     : MemoryKind::kPageable;
  return PointerInfo{kind, attributes.device, attributes.devicePointer == address && address != nullptr};
}

}  // namespace executorch::backends::tensorrt
