#pragma once

#include <executorch/runtime/core/result.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

using runtime::Result;

/// Work that was captured from a stream, ready to be launched as one. Launches of one graph run one after the
/// other.
class Graph {
 public:
  /// Captures what `queue_work` queues on `stream`. Nothing runs. Other threads may go on using CUDA: the
  /// capture concerns this thread alone. Nothing is logged on failure; `why` says what stood in the way, and
  /// the stream is usable as before.
  template <class QueueWork>
  static Result<Graph> capture(StreamView stream, QueueWork&& queue_work, const char*& why);

  Error launch(StreamView stream) const {
    return check(cudaGraphLaunch(handle_.get(), stream.get()), "cudaGraphLaunch");
  }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const noexcept {
      log_failure(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
    }
  };
  using Handle = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

  explicit Graph(Handle handle) : handle_(std::move(handle)) {}
  static Result<Graph> instantiate(cudaGraph_t captured, const char*& why);

  Handle handle_;
};

template <class QueueWork>
Result<Graph> Graph::capture(StreamView stream, QueueWork&& queue_work, const char*& why) {
  const auto fail = [&why](cudaError_t status, const char* what) {
    cudaGetLastError();
    why = status == cudaSuccess ? what : cudaGetErrorString(status);
    return Error::NotSupported;
  };
  const cudaError_t begun = cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal);
  if (begun != cudaSuccess) {
    return fail(begun, "");
  }
  const bool queued = queue_work();
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream.get(), &captured);
  const auto release = [](cudaGraph_t graph) { log_failure(cudaGraphDestroy(graph), "cudaGraphDestroy"); };
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(release)> owner(captured, release);
  if (!queued || ended != cudaSuccess) {
    return fail(ended, "TensorRT refused to queue its work while it is captured");
  }
  return instantiate(captured, why);
}

}  // namespace executorch::backends::tensorrt
