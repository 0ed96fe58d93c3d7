#pragma once

#include <executorch/runtime/core/error.h>

#include <exception>
#include <new>

#include "log/log.h"

namespace executorch::backends::tensorrt {

/// Runs `work` so that no exception leaves the library: ExecuTorch is built without them, and C has none.
template <class Work>
auto contain(const char* what, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    DELEGATE_LOG(Error, "%s ran out of host memory.", what);
    return runtime::Error::MemoryAllocationFailed;
  } catch (const std::exception& error) {
    DELEGATE_LOG(Error, "%s failed: %s.", what, error.what());
    return runtime::Error::Internal;
  }
}

}  // namespace executorch::backends::tensorrt
