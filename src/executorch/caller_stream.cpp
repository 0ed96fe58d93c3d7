#include "executorch/caller_stream.h"

#include <dlfcn.h>

#include <atomic>
#include <type_traits>

#include "executorch/c_api.h"

namespace executorch::backends::tensorrt {

namespace {

// `std::optional<cudaStream_t> executorch::extension::cuda::getCallerStream()`. The optional is returned in
// two registers on both targets, which needs it to be trivially copyable and 16 bytes.
constexpr const char* kGetter = "_ZN10executorch9extension4cuda15getCallerStreamEv";
constexpr const char* kExtensions[] = {"libexecutorch_extension_cuda.so", "libextension_cuda.so"};
using OptionalStream = std::optional<cudaStream_t>;
using Getter = OptionalStream (*)();
static_assert(sizeof(OptionalStream) == 16 && std::is_trivially_copyable_v<OptionalStream>);

thread_local OptionalStream own_stream;

Getter find_getter() {
  // Python loads libraries with RTLD_LOCAL, so the default scope alone would miss them.
  for (const char* extension : kExtensions) {
    if (void* handle = dlopen(extension, RTLD_NOLOAD | RTLD_LAZY)) {
      if (void* getter = dlsym(handle, kGetter)) {
        return reinterpret_cast<Getter>(getter);
      }
    }
  }
  return reinterpret_cast<Getter>(dlsym(RTLD_DEFAULT, kGetter));
}

/// ExecuTorch's getter, once its library is in the process. Until then it is looked for again now and then:
/// the search costs about a microsecond, and the library may be loaded after the first call.
OptionalStream extension_stream() {
  constexpr unsigned kCallsBetweenSearches = 64;
  static std::atomic<Getter> getter{nullptr};
  thread_local unsigned calls = 0;
  Getter found = getter.load(std::memory_order_acquire);
  if (found == nullptr && calls++ % kCallsBetweenSearches == 0) {
    found = find_getter();
    getter.store(found, std::memory_order_release);
  }
  return found == nullptr ? std::nullopt : found();
}

}  // namespace

std::optional<StreamView> caller_stream() {
  if (const OptionalStream stream = extension_stream()) {
    return StreamView(*stream);
  }
  return own_stream.has_value() ? std::optional<StreamView>(StreamView(*own_stream)) : std::nullopt;
}

StreamView current_stream() { return caller_stream().value_or(StreamView::per_thread()); }

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
