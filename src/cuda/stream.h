#pragma once

#include <executorch/runtime/core/result.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "cuda/check.h"

namespace executorch::backends::tensorrt {

/// A stream that somebody else owns. Null is the legacy default stream, so it must be asked for by type.
class StreamView {
 public:
  explicit StreamView(cudaStream_t stream) : stream_(stream) {}
  StreamView(int) = delete;
  StreamView(std::nullptr_t) = delete;

  static StreamView per_thread() { return StreamView(cudaStreamPerThread); }

  /// Whether this is one of CUDA's default streams, which are no objects of their own.
  bool is_default() const {
    return stream_ == nullptr || stream_ == cudaStreamLegacy || stream_ == cudaStreamPerThread;
  }

  cudaStream_t get() const { return stream_; }
  Error synchronize() const { return check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  /// Whether what is queued now is captured into a graph of the caller's instead of run.
  runtime::Result<bool> is_capturing() const;

  /// The number that no other stream has, ever. Handles do not tell streams apart: every thread's default
  /// stream has the same one, and a destroyed stream's is given out again.
  runtime::Result<unsigned long long> id() const;

 private:
  cudaStream_t stream_;
};

/// Owns a stream that does not wait for the legacy default stream.
class Stream {
 public:
  static runtime::Result<Stream> create() {
    cudaStream_t raw = nullptr;
    ET_CHECK_OK_OR_RETURN_ERROR(
        check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"));
    return adopt(raw);
  }

  /// Takes over a stream that was created elsewhere.
  static Stream adopt(cudaStream_t stream) { return Stream(Handle(stream)); }

  StreamView view() const { return StreamView(handle_.get()); }

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const noexcept {
      log_failure(cudaStreamDestroy(stream), "cudaStreamDestroy");
    }
  };
  using Handle = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy>;

  explicit Stream(Handle handle) : handle_(std::move(handle)) {}

  Handle handle_;
};

}  // namespace executorch::backends::tensorrt
