#include "executorch/caller_stream.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

#include "executorch/c_api.h"

namespace executorch::backends::tensorrt {

namespace {

// `std::optional<cudaStream_t> executorch::extension::cuda::getCallerStream()`. The optional is returned in
// two registers on both targets, which needs it to be trivially copyable and 16 bytes.
using OptionalStream = std::optional<cudaStream_t>;
using CallerStreamGetter = OptionalStream (*)();
static_assert(sizeof(OptionalStream) == 16 && std::is_trivially_copyable_v<OptionalStream>);
constexpr const char* kCallerStream = "_ZN10executorch9extension4cuda15getCallerStreamEv";
constexpr const char* kExtensions[] = {"libexecutorch_extension_cuda.so", "libextension_cuda.so"};

// Part of PyTorch's stable C interface for compiled models; 0 is success.
using TorchStreamGetter = int32_t (*)(int32_t device, void** stream);
constexpr const char* kTorchStream = "aoti_torch_get_current_cuda_stream";
constexpr const char* kTorch = "libtorch_cuda.so";

thread_local OptionalStream own_stream;

/// How many libraries this process has ever loaded: a search need only be repeated when the number has
/// changed.
unsigned long long loads_so_far() {
  unsigned long long loads = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<unsigned long long*>(result) = info->dlpi_adds;
        return 1;
      },
      &loads);
  return loads;
}

/// The path of a loaded library by its file name; "" when it is not loaded. (`dlopen` with RTLD_NOLOAD and a
/// bare name would search the file system.)
std::string path_of_loaded(const char* name) {
  struct Search {
    const char* name;
    std::string path;
  } search{name, ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const char* slash = std::strrchr(info->dlpi_name, '/');
        if (std::strcmp(slash == nullptr ? info->dlpi_name : slash + 1, wanted.name) != 0) {
          return 0;
        }
        wanted.path = info->dlpi_name;
        return 1;
      },
      &search);
  return search.path;
}

/// A function of a loaded library, which then stays loaded. Python loads libraries with RTLD_LOCAL, so the
/// default scope would miss them.
void* function_of(const char* library, const char* symbol) {
  const std::string path = path_of_loaded(library);
  void* handle = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  return handle == nullptr ? nullptr : dlsym(handle, symbol);
}

/// The functions of others that say which stream is chosen. Their libraries may come into the process at any
/// time, or never.
class StreamSources {
 public:
  static StreamSources& instance() {
    static auto* const sources = new StreamSources;
    return *sources;
  }

  void refresh() {
    const unsigned long long loads = loads_so_far();
    if (loads == searched_at_.load(std::memory_order_acquire)) {
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const char* extension : kExtensions) {
      if (caller_.load(std::memory_order_relaxed) == nullptr) {
        caller_ = reinterpret_cast<CallerStreamGetter>(function_of(extension, kCallerStream));
      }
    }
    if (caller_.load(std::memory_order_relaxed) == nullptr) {  // linked into the program itself
      caller_ = reinterpret_cast<CallerStreamGetter>(dlsym(RTLD_DEFAULT, kCallerStream));
    }
    if (torch_.load(std::memory_order_relaxed) == nullptr) {
      torch_ = reinterpret_cast<TorchStreamGetter>(function_of(kTorch, kTorchStream));
    }
    searched_at_.store(loads, std::memory_order_release);
  }

  /// The stream that ExecuTorch's CUDA extension knows.
  OptionalStream extension_stream() const {
    const auto get = caller_.load(std::memory_order_relaxed);
    return get == nullptr ? std::nullopt : get();
  }

  /// PyTorch's current stream where that is a side stream: its default is the legacy stream, with which the
  /// default stream of this thread is in order by itself.
  OptionalStream torch_stream(int device) const {
    const auto get = torch_.load(std::memory_order_relaxed);
    void* stream = nullptr;
    const bool is_side_stream = get != nullptr && get(device, &stream) == 0 && stream != nullptr;
    return is_side_stream ? OptionalStream(static_cast<cudaStream_t>(stream)) : std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::atomic<unsigned long long> searched_at_{0};
  std::atomic<CallerStreamGetter> caller_{nullptr};
  std::atomic<TorchStreamGetter> torch_{nullptr};
};

}  // namespace

ThreadStream thread_stream(int device) {
  auto& sources = StreamSources::instance();
  sources.refresh();
  if (const OptionalStream chosen = sources.extension_stream()) {
    return {StreamView(*chosen), true};
  }
  if (own_stream.has_value()) {
    return {StreamView(*own_stream), true};
  }
  if (const OptionalStream current = sources.torch_stream(device)) {
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
