#pragma once

#include <executorch/runtime/core/result.h>

#include "cuda/check.h"

namespace executorch::backends::tensorrt {

using runtime::Result;

/// Makes a device current for a scope and restores the one before it. Belongs to one thread, so it cannot be
/// moved.
class DeviceScope {
 public:
  explicit DeviceScope(int device) { error_ = enter(device); }
  ~DeviceScope() {
    if (previous_ != kUnchanged) {
      log_failure(cudaSetDevice(previous_), "cudaSetDevice (restoring the caller's device)");
    }
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// What happened on entry; when it is not Ok the device is the caller's.
  Error error() const { return error_; }

 private:
  static constexpr int kUnchanged = -1;

  Error enter(int device) {
    int current = kUnchanged;
    ET_CHECK_OK_OR_RETURN_ERROR(check(cudaGetDevice(&current), "cudaGetDevice"));
    if (current == device) {
      return Error::Ok;
    }
    ET_CHECK_OK_OR_RETURN_ERROR(check(cudaSetDevice(device), "cudaSetDevice"));
    previous_ = current;
    return Error::Ok;
  }

  int previous_ = kUnchanged;
  Error error_ = Error::Ok;
};

}  // namespace executorch::backends::tensorrt
