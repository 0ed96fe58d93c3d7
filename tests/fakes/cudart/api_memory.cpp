// Memory: allocation, copies, questions about pointers.

#include <cstring>
#include <string>

#include "fake_cudart.h"
#include "memory.h"
#include "stream.h"

using namespace fake_cuda;

namespace {

enum class Side { kPageable, kPinned, kDevice };

Side side_of(const void* address) {
  const Place place = memory().find(address);
  if (place.block == nullptr) {
    return Side::kPageable;
  }
  return place.block->kind == Kind::kPinned ? Side::kPinned : Side::kDevice;
}

std::string describe(const char* role, const void* address, size_t bytes) {
  const Place place = memory().find(address);
  std::string text = std::string(role) + " of " + std::to_string(bytes) + " bytes is ";
  if (place.block != nullptr) {
    return text + "at " + std::to_string(place.offset) + " of a block of " +
           std::to_string(place.block->bytes);
  }
  return text + (place.freed ? "in no live block of device memory" : "null");
}

bool check_range(const char* function, const char* role, const void* address, size_t bytes) {
  if (memory().valid(address, bytes)) {
    return true;
  }
  violation(std::string(function) + ": the " + describe(role, address, bytes));
  return false;
}

struct Copy {
  void* target;
  const void* source;
  size_t bytes;
};

// The addresses may have been freed since the copy was queued.
cudaError_t run_copy(const Copy& copy) {
  void* target = nullptr;
  const void* source = nullptr;
  {
    const Lock lock(mutex());
    if (!check_range("running a copy", "target", copy.target, copy.bytes) ||
        !check_range("running a copy", "source", copy.source, copy.bytes)) {
      return cudaErrorIllegalAddress;
    }
    target = memory().reach(copy.target);
    source = memory().reach(copy.source);
  }
  std::memmove(target, source, copy.bytes);
  return cudaSuccess;
}

bool kind_fits(cudaMemcpyKind kind, Side target, Side source) {
  const bool to_device = target == Side::kDevice;
  const bool from_device = source == Side::kDevice;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return true;
  }
}

void count_copy(Side target, Side source, size_t bytes) {
  const std::string kind = std::string(source == Side::kDevice ? "device" : "host") + "_to_" +
                           (target == Side::kDevice ? "device" : "host");
  count("copies." + kind);
  count("bytes." + kind, static_cast<long>(bytes));
}

/// Queues a copy with the host's part as CUDA documents it: a pageable source is read now, and a copy that
/// ends in pageable memory, or stays on the host, is over when the call returns.
cudaError_t queue_copy(Lock& lock, const std::shared_ptr<Stream>& stream, const Copy& copy, Side target,
                       Side source) {
  if (source == Side::kPageable && target == Side::kDevice && stream->capture == nullptr) {
    const auto* bytes = static_cast<const char*>(copy.source);
    auto staged = std::make_shared<std::string>(bytes, copy.bytes);
    return submit(stream,
                  {{}, [copy, staged] { return run_copy({copy.target, staged->data(), copy.bytes}); }});
  }
  const cudaError_t error = submit(stream, {{}, [copy] { return run_copy(copy); }});
  const bool ends_now = target == Side::kPageable || (target != Side::kDevice && source != Side::kDevice);
  if (error != cudaSuccess || !ends_now || stream->capture != nullptr) {
    return error;
  }
  return wait_for_stream(lock, stream);
}

cudaError_t copy(Lock& lock, const char* function, const Copy& copy, cudaMemcpyKind kind,
                 cudaStream_t handle) {
  const auto stream = stream_of(handle);
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (copy.bytes == 0) {
    return cudaSuccess;
  }
  if (!check_range(function, "target", copy.target, copy.bytes) ||
      !check_range(function, "source", copy.source, copy.bytes)) {
    return cudaErrorInvalidValue;
  }
  const Side target = side_of(copy.target);
  const Side source = side_of(copy.source);
  if (!kind_fits(kind, target, source)) {
    violation(std::string(function) + ": the stated kind does not fit the addresses");
    return cudaErrorInvalidValue;
  }
  count_copy(target, source, copy.bytes);
  return queue_copy(lock, stream, copy, target, source);
}

cudaError_t allocate(Kind kind, void** block, size_t bytes) {
  if (const cudaError_t error = refuse_unsafe_call(); error != cudaSuccess) {
    return error;
  }
  *block = nullptr;
  if (bytes == 0) {
    return cudaSuccess;
  }
  const int device = current_device();
  const bool fits = bytes <= control().memory_bytes &&
                    memory().live_bytes(Kind::kDevice, device) <= control().memory_bytes - bytes;
  *block = kind == Kind::kPinned || fits ? memory().allocate(kind, bytes, device) : nullptr;
  return *block == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t release(Lock& lock, const char* function, void* block, Kind kind) {
  if (block == nullptr) {
    return cudaSuccess;
  }
  // Like the real one: memory that queued work may use is not taken away under it.
  const cudaError_t error = wait_for_device(lock, -1);
  if (!memory().free(block, kind) && !(kind == Kind::kDevice && memory().free(block, Kind::kManaged))) {
    violation(std::string(function) + ": the address does not begin a live block");
    return cudaErrorInvalidValue;
  }
  return error;
}

cudaError_t fill(void* address, int value, size_t bytes, cudaStream_t handle) {
  const auto stream = stream_of(handle);
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (!check_range("cudaMemset", "target", address, bytes)) {
    return cudaErrorInvalidValue;
  }
  return submit(stream, {{}, [=] {
                           void* target = fake_cuda_reach(address, bytes, -1);
                           if (target == nullptr && bytes > 0) {
                             return cudaErrorIllegalAddress;
                           }
                           std::memset(target, value, bytes);
                           return cudaSuccess;
                         }});
}

}  // namespace

int fake_cuda::driver_pointer_attribute(void* data, int attribute, unsigned long long address) {
  constexpr int kInvalidValue = 1;
  constexpr int kBufferId = 7;
  const Lock lock(mutex());
  const cudaError_t error = enter("cuPointerGetAttribute");
  const Place place = memory().find(reinterpret_cast<const void*>(address));
  if (error != cudaSuccess || attribute != kBufferId || place.block == nullptr) {
    return error != cudaSuccess ? error : kInvalidValue;
  }
  *static_cast<unsigned long long*>(data) = place.block->id;
  return 0;
}

extern "C" {

cudaError_t cudaMalloc(void** block, size_t bytes) {
  return call("cudaMalloc", [&](Lock&) { return allocate(Kind::kDevice, block, bytes); });
}

cudaError_t cudaMallocAsync(void** block, size_t bytes, cudaStream_t handle) {
  return call("cudaMallocAsync", [&](Lock&) {
    return stream_of(handle) == nullptr ? cudaErrorInvalidResourceHandle
                                        : allocate(Kind::kDevice, block, bytes);
  });
}

cudaError_t cudaMallocManaged(void** block, size_t bytes, unsigned int) {
  return call("cudaMallocManaged", [&](Lock&) { return allocate(Kind::kManaged, block, bytes); });
}

cudaError_t cudaMallocHost(void** block, size_t bytes) {
  return call("cudaMallocHost", [&](Lock&) { return allocate(Kind::kPinned, block, bytes); });
}

cudaError_t cudaHostAlloc(void** block, size_t bytes, unsigned int) {
  return call("cudaHostAlloc", [&](Lock&) { return allocate(Kind::kPinned, block, bytes); });
}

cudaError_t cudaFree(void* block) {
  return release_call("cudaFree",
                      [&](Lock& lock) { return release(lock, "cudaFree", block, Kind::kDevice); });
}

cudaError_t cudaFreeHost(void* block) {
  return release_call("cudaFreeHost",
                      [&](Lock& lock) { return release(lock, "cudaFreeHost", block, Kind::kPinned); });
}

cudaError_t cudaFreeAsync(void* block, cudaStream_t handle) {
  return release_call("cudaFreeAsync", [&](Lock&) {
    const auto stream = stream_of(handle);
    if (stream == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    return submit(stream, {{}, [block] {
                             const Lock lock(mutex());
                             if (block != nullptr && !memory().free(block, Kind::kDevice)) {
                               violation("cudaFreeAsync: the address does not begin a live block");
                               return cudaErrorInvalidValue;
                             }
                             return cudaSuccess;
                           }});
  });
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&](Lock& lock) {
    return copy(lock, "cudaMemcpyAsync", {target, source, bytes}, kind, stream);
  });
}

cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", [&](Lock& lock) {
    if (const cudaError_t error = refuse_unsafe_call(); error != cudaSuccess) {
      return error;
    }
    const cudaError_t error = copy(lock, "cudaMemcpy", {target, source, bytes}, kind, cudaStreamLegacy);
    return error != cudaSuccess ? error : wait_for_stream(lock, stream_of(cudaStreamLegacy));
  });
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&](Lock&) { return fill(address, value, bytes, stream); });
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  return call("cudaMemset", [&](Lock& lock) {
    const cudaError_t error = fill(address, value, bytes, cudaStreamLegacy);
    return error != cudaSuccess ? error : wait_for_stream(lock, stream_of(cudaStreamLegacy));
  });
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call("cudaMemGetInfo", [&](Lock&) {
    *total_bytes = control().memory_bytes;
    *free_bytes = *total_bytes - memory().live_bytes(Kind::kDevice, current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call("cudaPointerGetAttributes", [&](Lock&) {
    *attributes = {};
    void* pointer = const_cast<void*>(address);
    const Place place = memory().find(address);
    if (place.block == nullptr) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -2;  // as the real one answers for memory it does not know
      attributes->hostPointer = place.freed ? nullptr : pointer;
      return cudaSuccess;
    }
    attributes->device = place.block->device;
    attributes->devicePointer = pointer;
    attributes->type = place.block->kind == Kind::kDevice   ? cudaMemoryTypeDevice
                       : place.block->kind == Kind::kPinned ? cudaMemoryTypeHost
                                                            : cudaMemoryTypeManaged;
    attributes->hostPointer = place.block->kind == Kind::kDevice ? nullptr : pointer;
    return cudaSuccess;
  });
}

void fake_cuda_turn_into_host_memory(void* managed) {
  const Lock lock(mutex());
  if (!memory().turn_into_host_memory(managed)) {
    violation("fake_cuda_turn_into_host_memory: not managed memory");
  }
}

void* fake_cuda_reach(const void* address, size_t bytes, int device) {
  const Lock lock(mutex());
  const Place place = memory().find(address);
  if (place.block == nullptr || !memory().valid(address, bytes)) {
    violation("a kernel: the " + describe("range", address, bytes) +
              (place.block == nullptr ? ", or pageable memory" : ""));
    return nullptr;
  }
  if (device >= 0 && place.block->kind == Kind::kDevice && place.block->device != device) {
    violation("a kernel on device " + std::to_string(device) + " uses memory of device " +
              std::to_string(place.block->device));
    return nullptr;
  }
  return memory().reach(address);
}

}  // extern "C"
