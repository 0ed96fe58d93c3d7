#pragma once

/// The stream on which the TensorRT delegate works for the calling thread.
///
/// Use it where ExecuTorch's own `executorch/extension/cuda/caller_stream.h` is not at hand: the CPU wheels
/// of ExecuTorch do not carry that library. When it is in the process, the delegate reads that one first.
/// Link `executorch::backend_tensorrt`.

struct CUstream_st;  // `cudaStream_t` is a pointer to it; CUDA's headers are not needed here

extern "C" {
bool tensorrt_executorch_get_caller_stream(void** stream);
void tensorrt_executorch_set_caller_stream(void* stream);
void tensorrt_executorch_clear_caller_stream();
}

namespace executorch::backends::tensorrt {

/// Makes every delegate call of this thread use `stream` until the scope ends; then what was set before is
/// set again.
///
/// A null stream is the legacy default stream, explicitly chosen. The stream must belong to the engine's GPU.
/// With a stream set, a call whose tensors all lie on the GPU returns before the work has ended: synchronise
/// the stream, or go on working on it, before you read the results.
class CallerStreamGuard {
 public:
  explicit CallerStreamGuard(CUstream_st* stream)
      : had_previous_(tensorrt_executorch_get_caller_stream(&previous_)) {
    tensorrt_executorch_set_caller_stream(stream);
  }
  ~CallerStreamGuard() {
    if (had_previous_) {
      tensorrt_executorch_set_caller_stream(previous_);
    } else {
      tensorrt_executorch_clear_caller_stream();
    }
  }
  CallerStreamGuard(const CallerStreamGuard&) = delete;
  CallerStreamGuard& operator=(const CallerStreamGuard&) = delete;

 private:
  void* previous_ = nullptr;
  bool had_previous_;
};

}  // namespace executorch::backends::tensorrt
