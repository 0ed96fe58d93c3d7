#include "cuda/green_context.h"

#include "cuda/driver_function.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

// These return CUresult.
using GetGreenContext = int (*)(cudaStream_t stream, void** context);
using GetId = int (*)(void* context, unsigned long long* id);
using CreateStream = int (*)(cudaStream_t* stream, void* context, unsigned flags, int priority);
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING, which these streams must be
constexpr int kNotFound = 500;        // CUDA_ERROR_NOT_FOUND

/// Null for an ordinary stream.
void* context_of(StreamView stream) {
  static const auto get = find_driver_function<GetGreenContext>("cuStreamGetGreenCtx", 12040);
  void* context = nullptr;
  return get != nullptr && !stream.is_default() && get(stream.get(), &context) == 0 ? context : nullptr;
}

}  // namespace

uint64_t green_context_of(StreamView stream) {
  void* const context = context_of(stream);
  if (context == nullptr) {
    return 0;
  }
  static const auto get_id = find_driver_function<GetId>("cuGreenCtxGetId", 13000);
  unsigned long long id = 0;
  return get_id != nullptr && get_id(context, &id) == 0 ? id : reinterpret_cast<uint64_t>(context);
}

runtime::Result<Stream> create_stream_beside(StreamView neighbour) {
  static const auto create = find_driver_function<CreateStream>("cuGreenCtxStreamCreate", 12050);
  cudaStream_t stream = nullptr;
  const int result = create == nullptr ? kNotFound : create(&stream, context_of(neighbour), kNonBlocking, 0);
  if (result != 0) {
    DELEGATE_LOG(
        Error,
        "No stream can be created in the green context of the caller's stream: cuGreenCtxStreamCreate "
        "failed (CUresult %d). Free device memory, or run on an ordinary stream.",
        result);
    return Error::Internal;
  }
  return Stream::adopt(stream);
}

}  // namespace executorch::backends::tensorrt
