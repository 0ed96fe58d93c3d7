#include "executorch/last_load.h"

namespace executorch::backends::tensorrt {

namespace {

struct LastLoad {
  runtime::DelegateHandle* handle = nullptr;
  uint64_t count = 0;
};
thread_local LastLoad last_load;

}  // namespace

void remember_load(runtime::DelegateHandle* handle) {
  last_load.handle = handle;
  ++last_load.count;
}

}  // namespace executorch::backends::tensorrt

extern "C" uint64_t tensorrt_executorch_last_load(void** handle) {
  const auto& last = executorch::backends::tensorrt::last_load;
  *handle = last.handle;
  return last.count;
}
