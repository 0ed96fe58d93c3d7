#pragma once

#include <executorch/runtime/core/result.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

using runtime::Result;

/// Owns a CUDA event without timing, on the device that was current at creation. Destroy it on any thread.
class Event {
 public:
  static Result<Event> create() {
    cudaEvent_t raw = nullptr;
    ET_CHECK_OK_OR_RETURN_ERROR(
        check(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming), "cudaEventCreateWithFlags"));
    return Event(Handle(raw));
  }

  Error record(StreamView stream) {
    return check(cudaEventRecord(handle_.get(), stream.get()), "cudaEventRecord");
  }

  /// Work queued on `stream` from now on starts after the recorded point.
  Error make_wait(StreamView stream) {
    return check(cudaStreamWaitEvent(stream.get(), handle_.get(), 0), "cudaStreamWaitEvent");
  }

  /// Waits on the host for the recorded point; returns at once when nothing was recorded.
  Error synchronize() { return check(cudaEventSynchronize(handle_.get()), "cudaEventSynchronize"); }

  /// The same for destructors: a failure is logged, and a runtime that is already unloading is none.
  void synchronize_before_destruction() noexcept {
    log_failure(cudaEventSynchronize(handle_.get()), "cudaEventSynchronize");
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const noexcept {
      log_failure(cudaEventDestroy(event), "cudaEventDestroy");
    }
  };
  using Handle = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy>;

  explicit Event(Handle handle) : handle_(std::move(handle)) {}

  Handle handle_;
};

}  // namespace executorch::backends::tensorrt
