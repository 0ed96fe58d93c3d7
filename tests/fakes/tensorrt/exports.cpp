// The C functions of one fake TensorRT library. Compile definitions say which: FAKE_TENSORRT_VERSION is
// "major, minor, patch, build"; _RTX, _PARTIAL (lean and dispatch), _NO_VERSION, _TWO_VERSIONS and
// _MOVED_SLOTS are 0 or 1.

#include <cuda_runtime_api.h>

#include <vector>

#include "fake_cudart.h"
#include "library_facts.h"
#include "objects.h"

namespace fake_tensorrt {

const LibraryFacts& facts() {
  static const LibraryFacts value{FAKE_TENSORRT_VERSION, FAKE_TENSORRT_RTX != 0, FAKE_TENSORRT_PARTIAL != 0,
                                  FAKE_TENSORRT_MOVED_SLOTS != 0};
  return value;
}

namespace {

// What lean and dispatch return instead of null when there is no driver.
void* const kNoDriver = reinterpret_cast<void*>(0x228);

bool has_driver() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess;
}

}  // namespace
}  // namespace fake_tensorrt

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* createInferRuntime_INTERNAL(void* logger, int32_t) {
  using namespace fake_tensorrt;
  const cudaError_t armed = fake_cuda_enter("tensorrt.create_runtime");
  if (armed != cudaSuccess) {
    return armed == cudaErrorNoDevice ? kNoDriver : nullptr;
  }
  if (!facts().is_rtx && !has_driver()) {
    return kNoDriver;
  }
  auto* runtime = new Runtime(static_cast<abi::LoggerInterface*>(logger));
  // Nobody can destroy an object whose destructor may be elsewhere: it is left alone, and here still
  // reachable.
  static auto* const abandoned = new std::vector<Runtime*>;
  if (facts().moved_slots) {
    abandoned->push_back(runtime);
  }
  return runtime;
}

EXPORT void* getLogger() { return nullptr; }

#if !FAKE_TENSORRT_NO_VERSION
EXPORT int32_t getInferLibVersion() {
  return fake_tensorrt::facts().version() + (FAKE_TENSORRT_TWO_VERSIONS ? 1 : 0);
}
EXPORT int32_t getInferLibMajorVersion() { return fake_tensorrt::facts().major; }
EXPORT int32_t getInferLibMinorVersion() { return fake_tensorrt::facts().minor; }
EXPORT int32_t getInferLibPatchVersion() { return fake_tensorrt::facts().patch; }
EXPORT int32_t getInferLibBuildVersion() { return fake_tensorrt::facts().build; }
#endif
