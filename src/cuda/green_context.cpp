#include "cuda/green_context.h"

namespace executorch::backends::tensorrt {

namespace {

// `CUresult cuStreamGetGreenCtx(CUstream, CUgreenCtx*)` of the driver, which is not linked: it may be absent.
using GetGreenContext = int (*)(cudaStream_t stream, void** context);
constexpr unsigned kFirstVersion = 12040;

GetGreenContext find_getter() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status = cudaGetDriverEntryPointByVersion("cuStreamGetGreenCtx", &function, kFirstVersion,
                                                              cudaEnableDefault, &result);
  if (status != cudaSuccess) {
    cudaGetLastError();
  }
  return status == cudaSuccess && result == cudaDriverEntryPointSuccess
             ? reinterpret_cast<GetGreenContext>(function)
             : nullptr;
}

}  // namespace

uint64_t green_context_of(StreamView stream) {
  static const GetGreenContext get = find_getter();
  void* context = nullptr;
  if (get == nullptr || stream.is_default() || get(stream.get(), &context) != 0) {
    return 0;
  }
  return reinterpret_cast<uint64_t>(context);
}

}  // namespace executorch::backends::tensorrt
