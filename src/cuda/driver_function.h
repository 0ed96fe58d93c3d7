#pragma once

#include "cuda/check.h"

namespace executorch::backends::tensorrt {

/// A function of the driver, which is not linked: it may be absent, or older than the function is. Null then.
/// `first_version` is the CUDA version that brought it, such as 12040.
template <class Function>
Function find_driver_function(const char* name, unsigned first_version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &function, first_version, cudaEnableDefault, &result);
  if (status != cudaSuccess) {
    cudaGetLastError();
  }
  return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function)
                                                                        : nullptr;
}

}  // namespace executorch::backends::tensorrt
