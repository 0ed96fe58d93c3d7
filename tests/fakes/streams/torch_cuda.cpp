// Stands in for libtorch_cuda.so: PyTorch's current stream of a device, null being its default stream.

#include <cstdint>

static thread_local void* current[2] = {};

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int32_t aoti_torch_get_current_cuda_stream(int32_t device, void** stream) {
  if (device < 0 || device > 1) {
    return 1;
  }
  *stream = current[device];
  return 0;
}

EXPORT void fake_torch_set_stream(int32_t device, void* stream) { current[device] = stream; }
