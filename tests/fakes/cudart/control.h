#pragma once

// Counting, failure injection and the per-thread state that every API function shares.

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake_cuda {

using Lock = std::unique_lock<std::mutex>;

struct Device {
  int major = 9;
  int minor = 0;
  int integrated = 0;
};

/// All that is not a handle. Guarded by `mutex()`.
struct Control {
  static constexpr size_t kDefaultMemory = size_t{8} << 30;

  int device_count = 2;
  std::vector<Device> devices{2};
  size_t memory_bytes = kDefaultMemory;
  std::map<std::string, long> counters;
  std::vector<std::string> violations;
  std::string failing_function;  ///< empty: any
  long calls_until_failure = 0;  ///< 0: disarmed
  cudaError_t failure = cudaSuccess;
  bool failed = false;
  cudaError_t next_work_failure = cudaSuccess;
};

/// What other fakes have alive. Survives a reset, like the handles. Guarded by `mutex()`.
std::map<std::string, long>& live_elsewhere();

std::mutex& mutex();
Control& control();

int& current_device();      ///< of this thread
cudaError_t& last_error();  ///< of this thread

void count(const std::string& name, long by = 1);
void violation(const std::string& sentence);

/// Counts a call and returns the failure that a test armed for it, if this is the one.
cudaError_t enter(const char* function);

/// What CUDA answers when there is no driver or no GPU; cudaSuccess when there is one.
cudaError_t machine_state();

inline cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) {
    last_error() = error;
  }
  return error;
}

/// One API function: counted, failing when told to, and with the lock held while `body(lock)` runs.
template <class Body>
cudaError_t call(const char* function, const Body& body) {
  Lock lock(mutex());
  cudaError_t error = enter(function);
  if (error == cudaSuccess) {
    error = machine_state();
  }
  return remember(error == cudaSuccess ? body(lock) : error);
}

/// As `call`, for functions that release something: they do so even when they report a failure.
template <class Body>
cudaError_t release_call(const char* function, const Body& body) {
  Lock lock(mutex());
  const cudaError_t armed = enter(function);
  const cudaError_t error = body(lock);
  return remember(armed != cudaSuccess ? armed : error);
}

}  // namespace fake_cuda
