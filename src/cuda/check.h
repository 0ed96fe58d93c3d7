#pragma once

#include <cuda_runtime_api.h>
#include <executorch/runtime/core/error.h>

namespace executorch::backends::tensorrt {

using runtime::Error;

/// Turns a CUDA status into an `Error` and logs one sentence when it is a failure; `call` names what failed.
/// No memory becomes `MemoryAllocationFailed`, a missing or too old driver `NotFound`, anything else
/// `Internal`. The sticky error is cleared, so that an unrelated later call does not report it.
Error check(cudaError_t status, const char* call);

/// For destructors: logs a failure and goes on. A runtime that is already unloading at exit is no failure.
void log_failure(cudaError_t status, const char* call) noexcept;

}  // namespace executorch::backends::tensorrt
