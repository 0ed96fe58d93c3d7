// Prints which library serves TensorRTBackend: the static initializer must have run although nothing here
// asks for the backend before.

#include <dlfcn.h>
#include <executorch/backends/tensorrt/caller_stream.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdio>

namespace {

#ifdef CONSUMER_USES_CALLER_STREAM
/// A guard sets the stream and takes it back; no GPU is touched.
bool guards_work() {
  void* stream = nullptr;
  {
    const executorch::backends::tensorrt::CallerStreamGuard guard(nullptr);
    if (!tensorrt_executorch_get_caller_stream(&stream)) {
      return false;
    }
  }
  return !tensorrt_executorch_get_caller_stream(&stream);
}
#else
bool guards_work() { return true; }
#endif

}  // namespace

int main() {
  executorch::runtime::runtime_init();
  auto* backend = executorch::runtime::get_backend_class("TensorRTBackend");
  if (backend == nullptr) {
    std::puts("TensorRTBackend is not registered");
    return 1;
  }
  if (!guards_work()) {
    std::puts("CallerStreamGuard does not work");
    return 1;
  }
  Dl_info info{};
  dladdr(*reinterpret_cast<void**>(backend), &info);  // a virtual table lies in the library of its class
  std::printf("%s\n", info.dli_fname);
  return 0;
}
