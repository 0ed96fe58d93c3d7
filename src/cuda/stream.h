#pragma once

#include <cstddef>

#include "cuda/check.h"

namespace executorch::backends::tensorrt {

/// A stream that somebody else owns. Null is the legacy default stream, so it must be asked for by type.
class StreamView {
 public:
  explicit StreamView(cudaStream_t stream) : stream_(stream) {}
  StreamView(int) = delete;
  StreamView(std::nullptr_t) = delete;

  static StreamView per_thread() { return StreamView(cudaStreamPerThread); }

  cudaStream_t get() const { return stream_; }
  Error synchronize() const { return check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  friend bool operator==(StreamView a, StreamView b) { return a.stream_ == b.stream_; }
  friend bool operator!=(StreamView a, StreamView b) { return a.stream_ != b.stream_; }

 private:
  cudaStream_t stream_;
};

}  // namespace executorch::backends::tensorrt
