// CUDA memory and streams that free themselves.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpu {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
  }
}

/// Every place where a tensor's bytes can be.
enum class Where { kDevice, kPinned, kManaged, kPageable };
inline constexpr Where kEverywhere[] = {Where::kDevice, Where::kPinned, Where::kManaged, Where::kPageable};

inline const char* name_of(Where where) {
  constexpr const char* kNames[] = {"device", "pinned", "managed", "pageable"};
  return kNames[static_cast<int>(where)];
}

/// Owns a block of memory; `data()` starts `offset` bytes into it, so that it can be unaligned on purpose.
class Memory {
 public:
  Memory(Where where, size_t size_bytes, size_t offset = 0)
      : where_(where), size_bytes_(size_bytes), offset_(offset) {
    const size_t all = size_bytes + offset;
    switch (where) {
      case Where::kDevice:
        check(cudaMalloc(&base_, all), "cudaMalloc");
        break;
      case Where::kPinned:
        check(cudaMallocHost(&base_, all), "cudaMallocHost");
        break;
      case Where::kManaged:
        check(cudaMallocManaged(&base_, all, cudaMemAttachGlobal), "cudaMallocManaged");
        break;
      case Where::kPageable:
        base_ = ::operator new(all, std::align_val_t{64});
        break;
    }
  }
  ~Memory() {
    switch (where_) {
      case Where::kDevice:
      case Where::kManaged:
        cudaFree(base_);
        break;
      case Where::kPinned:
        cudaFreeHost(base_);
        break;
      case Where::kPageable:
        ::operator delete(base_, std::align_val_t{64});
        break;
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return static_cast<char*>(base_) + offset_; }
  size_t size_bytes() const { return size_bytes_; }
  Where where() const { return where_; }

  template <class T>
  void fill(const std::vector<T>& values) {
    check(cudaMemcpy(data(), values.data(), values.size() * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

 private:
  Where where_;
  size_t size_bytes_;
  size_t offset_;
  void* base_ = nullptr;
};

/// The elements at an address of any kind, once all work of the device has ended.
template <class T>
std::vector<T> read(const void* data, size_t count) {
  std::vector<T> values(count);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
  return values;
}

/// Owns a stream that does not synchronise with the legacy one: an order that is missing shows.
class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Queues work that keeps a stream busy for a while: what is queued behind it must wait.
void keep_busy(cudaStream_t stream, int microseconds);

inline size_t free_bytes() {
  size_t free = 0, total = 0;
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

/// Host memory of this process.
inline size_t resident_bytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace gpu
