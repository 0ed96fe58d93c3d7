#include "cuda/allocation_id.h"

#include "cuda/driver_function.h"

namespace executorch::backends::tensorrt {

namespace {

// CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address)
using GetAttribute = int (*)(void* data, int attribute, unsigned long long address);
constexpr int kBufferId = 7;  // CU_POINTER_ATTRIBUTE_BUFFER_ID

}  // namespace

uint64_t allocation_id(const void* address) {
  static const auto get = find_driver_function<GetAttribute>("cuPointerGetAttribute", 4000);
  unsigned long long id = 0;
  const bool known = get != nullptr && get(&id, kBufferId, reinterpret_cast<uintptr_t>(address)) == 0;
  return known ? id : 0;
}

}  // namespace executorch::backends::tensorrt
