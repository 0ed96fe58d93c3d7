#pragma once

#include <executorch/runtime/core/device_allocator.h>

#include <atomic>
#include <string>

namespace executorch::backends::tensorrt {

/// Device memory for ExecuTorch's planned buffers and copies, for processes whose ExecuTorch brings none.
/// Copies run on the caller's stream, those from and to ordinary memory through page-locked memory that is
/// kept while there are blocks; a copy to the host waits for its stream. Thread-safe.
class CudaAllocator final : public runtime::DeviceAllocator {
 public:
  runtime::Result<void*> allocate(size_t size_bytes, runtime::etensor::DeviceIndex device,
                                  size_t alignment) override;
  void deallocate(void* block, runtime::etensor::DeviceIndex device) override;
  runtime::Error copy_host_to_device(void* target, const void* source, size_t size_bytes,
                                     runtime::etensor::DeviceIndex device) override;
  runtime::Error copy_device_to_host(void* target, const void* source, size_t size_bytes,
                                     runtime::etensor::DeviceIndex device) override;
  runtime::etensor::DeviceType device_type() const override { return runtime::etensor::DeviceType::CUDA; }

 private:
  std::atomic<int> blocks_{0};  ///< that are allocated now
};

/// Who serves ExecuTorch's CUDA memory in this process.
struct AllocatorState {
  bool is_ours = false;
  std::string reason;  ///< one sentence
};

/// Registers the allocator unless there is one, a CUDA backend library is about to bring its own (a second
/// registration ends the process), or the environment says TORCH_TENSORRT_SKIP_DEVICE_ALLOCATOR=1. Called
/// once, when the library is loaded: programs get their device memory before any delegate is initialised.
AllocatorState register_device_allocator_if_none();

/// Whether ExecuTorch's copies between host and GPU run on the thread's stream, as this allocator's do.
bool copies_on_thread_stream();

}  // namespace executorch::backends::tensorrt
