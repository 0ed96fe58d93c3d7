#include "executorch/caller_stream.h"

#include <dlfcn.h>

#include <atomic>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include "executorch/c_api.h"

namespace executorch::backends::tensorrt {

namespace {

// `std::optional<cudaStream_t> executorch::extension::cuda::getCallerStream()`. The optional is returned in
// two registers on both targets, which needs it to be trivially copyable and 16 bytes.
using OptionalStream = std::optional<cudaStream_t>;
using CallerStreamGetter = OptionalStream (*)();
static_assert(sizeof(OptionalStream) == 16 && std::is_trivially_copyable_v<OptionalStream>);

// Part of PyTorch's stable C interface for compiled models; 0 is success.
using TorchStreamGetter = int32_t (*)(int32_t device, void** stream);

thread_local OptionalStream own_stream;

/// A function of a library that may come into the process at any time, or never. Looking costs about a
/// microsecond, so until it is found it is looked for at a thread's first call and then now and then.
template <class Function>
class OptionalFunction {
 public:
  OptionalFunction(std::initializer_list<const char*> libraries, const char* symbol)
      : libraries_(libraries), symbol_(symbol) {}

  Function get(unsigned& calls) {
    constexpr unsigned kCallsBetweenSearches = 64;
    Function found = found_.load(std::memory_order_acquire);
    if (found == nullptr && calls++ % kCallsBetweenSearches == 0) {
      found = search();
      found_.store(found, std::memory_order_release);
    }
    return found;
  }

 private:
  // Python loads libraries with RTLD_LOCAL, so the default scope alone would miss them.
  Function search() const {
    for (const char* library : libraries_) {
      if (void* handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY)) {
        if (void* function = dlsym(handle, symbol_)) {
          return reinterpret_cast<Function>(function);
        }
      }
    }
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, symbol_));
  }

  std::vector<const char*> libraries_;
  const char* symbol_;
  std::atomic<Function> found_{nullptr};
};

OptionalStream extension_stream() {
  static auto& getter =
      *new OptionalFunction<CallerStreamGetter>({"libexecutorch_extension_cuda.so", "libextension_cuda.so"},
                                                "_ZN10executorch9extension4cuda15getCallerStreamEv");
  thread_local unsigned calls = 0;
  const auto get = getter.get(calls);
  return get == nullptr ? std::nullopt : get();
}

OptionalStream torch_stream(int device) {
  static auto& getter =
      *new OptionalFunction<TorchStreamGetter>({"libtorch_cuda.so"}, "aoti_torch_get_current_cuda_stream");
  thread_local unsigned calls = 0;
  const auto get = getter.get(calls);
  void* stream = nullptr;
  // PyTorch's default is the legacy stream, with which the default stream of this thread is in order by
  // itself.
  const bool is_side_stream = get != nullptr && get(device, &stream) == 0 && stream != nullptr;
  return is_side_stream ? OptionalStream(static_cast<cudaStream_t>(stream)) : std::nullopt;
}

}  // namespace

ThreadStream thread_stream(int device) {
  if (const OptionalStream chosen = extension_stream()) {
    return {StreamView(*chosen), true};
  }
  if (own_stream.has_value()) {
    return {StreamView(*own_stream), true};
  }
  if (const OptionalStream current = torch_stream(device)) {
    return {StreamView(*current), false};
  }
  return {StreamView::per_thread(), false};
}

}  // namespace executorch::backends::tensorrt

extern "C" {

bool tensorrt_executorch_get_caller_stream(void** stream) {
  const auto& own = executorch::backends::tensorrt::own_stream;
  *stream = own.value_or(nullptr);
  return own.has_value();
}

void tensorrt_executorch_set_caller_stream(void* stream) {
  executorch::backends::tensorrt::own_stream = static_cast<cudaStream_t>(stream);
}

void tensorrt_executorch_clear_caller_stream() { executorch::backends::tensorrt::own_stream.reset(); }

}  // extern "C"
