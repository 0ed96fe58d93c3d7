#pragma once

#include <cstddef>

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// Queues a copy between any two kinds of memory. From pageable memory CUDA reads the source before it
/// returns.
inline Error copy_async(void* target, const void* source, size_t size_bytes, StreamView stream) {
  if (size_bytes == 0) {
    return Error::Ok;
  }
  return check(cudaMemcpyAsync(target, source, size_bytes, cudaMemcpyDefault, stream.get()),
               "cudaMemcpyAsync");
}

}  // namespace executorch::backends::tensorrt
