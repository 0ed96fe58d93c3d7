#include "cuda/device_info.h"

namespace executorch::backends::tensorrt {

Result<int> device_count() {
  int count = 0;
  ET_CHECK_OK_OR_RETURN_ERROR(check(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  if (count == 0) {
    return check(cudaErrorNoDevice, "cudaGetDeviceCount");
  }
  return count;
}

Result<DeviceInfo> device_info(int device) {
  cudaDeviceProp properties{};
  ET_CHECK_OK_OR_RETURN_ERROR(check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
  return DeviceInfo{properties.name,
                    std::to_string(properties.major) + "." + std::to_string(properties.minor),
                    properties.totalGlobalMem};
}

Result<bool> is_integrated(int device) {
  int integrated = 0;
  ET_CHECK_OK_OR_RETURN_ERROR(
      check(cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, device), "cudaDeviceGetAttribute"));
  return integrated != 0;
}

size_t free_device_bytes() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return free_bytes;
}

}  // namespace executorch::backends::tensorrt
