#include "executorch/device_allocator.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "cuda/device_scope.h"
#include "cuda/host_copy.h"
#include "executorch/caller_stream.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

using runtime::Error;
using runtime::Result;
using runtime::etensor::DeviceIndex;

namespace {

constexpr const char* kSkipVariable = "TORCH_TENSORRT_SKIP_DEVICE_ALLOCATOR";
constexpr const char* kCudaBackend = "libexecutorch_backend_cuda.so";
// What cudaMalloc promises.
constexpr size_t kLargestAlignment = 256;

std::atomic<bool> is_registered{false};

int ordinal(DeviceIndex device) { return device < 0 ? 0 : device; }

}  // namespace

Result<void*> CudaAllocator::allocate(size_t size_bytes, DeviceIndex device, size_t alignment) {
  if (alignment > kLargestAlignment) {
    DELEGATE_LOG(Error,
                 "Device memory was asked for with an alignment of %zu bytes; CUDA gives %zu at most. Export "
                 "with a smaller alignment.",
                 alignment, kLargestAlignment);
    return Error::NotSupported;
  }
  const DeviceScope scope(ordinal(device));
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  void* block = nullptr;
  const Error error = check(cudaMalloc(&block, size_bytes), "cudaMalloc");
  if (error != Error::Ok) {
    DELEGATE_LOG(Error, "The program needs %zu bytes of memory on GPU %d for its planned buffers.",
                 size_bytes, ordinal(device));
    return error;
  }
  blocks_ += block == nullptr ? 0 : 1;
  return block;
}

// What the copies of programs keep goes with the last program that has memory here.
void CudaAllocator::deallocate(void* block, DeviceIndex) {
  if (block == nullptr) {
    return;
  }
  log_failure(cudaFree(block), "cudaFree");
  if (--blocks_ == 0) {
    free_idle_copy_memory();
  }
}

// ExecuTorch tags some host tensors as CUDA, so the kind of both addresses is left to CUDA.
Error CudaAllocator::copy_host_to_device(void* target, const void* source, size_t size_bytes,
                                         DeviceIndex device) {
  const DeviceScope scope(ordinal(device));
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  return copy_to_device(target, source, size_bytes, ordinal(device), thread_stream(ordinal(device)).stream);
}

Error CudaAllocator::copy_device_to_host(void* target, const void* source, size_t size_bytes,
                                         DeviceIndex device) {
  const DeviceScope scope(ordinal(device));
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  return copy_to_host(target, source, size_bytes, ordinal(device), thread_stream(ordinal(device)).stream);
}

AllocatorState register_device_allocator_if_none() {
  const char* skip = std::getenv(kSkipVariable);
  if (skip != nullptr && std::string_view(skip) == "1") {
    return {false, std::string("switched off by ") + kSkipVariable + "=1"};
  }
  if (runtime::get_device_allocator(runtime::etensor::DeviceType::CUDA) != nullptr) {
    return {false, "another library registered one first"};
  }
  if (dlopen(kCudaBackend, RTLD_NOLOAD | RTLD_LAZY) != nullptr) {
    return {false, std::string(kCudaBackend) + " is in the process and registers its own"};
  }
  // Never destroyed: ExecuTorch keeps the pointer, and programs may free memory while the process ends.
  runtime::register_device_allocator(new CudaAllocator);
  is_registered = true;
  return {true, "registered by this library"};
}

bool copies_on_thread_stream() { return is_registered.load(std::memory_order_relaxed); }

}  // namespace executorch::backends::tensorrt
