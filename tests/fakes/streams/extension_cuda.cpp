// Stands in for libexecutorch_extension_cuda.so, which only CUDA builds of ExecuTorch have: the caller's
// stream of a thread.

#include <cuda_runtime_api.h>

#include <optional>

namespace executorch::extension::cuda {

static thread_local std::optional<cudaStream_t> caller_stream;

__attribute__((visibility("default"))) std::optional<cudaStream_t> getCallerStream() { return caller_stream; }

}  // namespace executorch::extension::cuda

/// What its `CallerStreamGuard` does; `has_stream` 0 clears.
extern "C" __attribute__((visibility("default"))) void fake_extension_set_stream(int has_stream,
                                                                                 cudaStream_t stream) {
  executorch::extension::cuda::caller_stream =
      has_stream != 0 ? std::optional<cudaStream_t>(stream) : std::nullopt;
}
