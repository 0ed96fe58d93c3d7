#include "cuda/check.h"

#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

Error error_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return Error::MemoryAllocationFailed;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
      return Error::NotFound;
    default:
      return Error::Internal;
  }
}

const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return " No NVIDIA driver for CUDA 13 is installed: install driver 580 or newer (nvidia-smi shows the "
             "present one).";
    case cudaErrorNoDevice:
      return " The driver sees no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES.";
    case cudaErrorInvalidDevice:
      return " This process does not see that GPU: export the program with device=\"cuda:0\", or make the "
             "GPU visible "
             "through CUDA_VISIBLE_DEVICES.";
    case cudaErrorMemoryAllocation:
      return " The GPU is out of memory: free some, or load fewer programs.";
    default:
      return "";
  }
}

}  // namespace

Error check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) {
    return Error::Ok;
  }
  cudaGetLastError();
  DELEGATE_LOG(Error, "%s failed: %s (%s).%s", call, cudaGetErrorString(status), cudaGetErrorName(status),
               advice(status));
  return error_of(status);
}

void log_failure(cudaError_t status, const char* call) noexcept {
  if (status != cudaSuccess && status != cudaErrorCudartUnloading) {
    cudaGetLastError();
    DELEGATE_LOG(Error, "%s failed: %s (%s).", call, cudaGetErrorString(status), cudaGetErrorName(status));
  }
}

}  // namespace executorch::backends::tensorrt
