#pragma once

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// Waits on the host for what was queued on a stream, unless it was released: after a failure in the middle
/// of a call the caller may free its tensors at once.
class PendingWork {
 public:
  explicit PendingWork(StreamView stream) : stream_(stream) {}
  ~PendingWork() {
    if (armed_) {
      log_failure(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize (after a failed call)");
    }
  }
  PendingWork(const PendingWork&) = delete;
  PendingWork& operator=(const PendingWork&) = delete;
  void release() { armed_ = false; }

 private:
  StreamView stream_;
  bool armed_ = true;
};

}  // namespace executorch::backends::tensorrt
