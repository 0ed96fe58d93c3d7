#pragma once

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// The stream on which the calling thread's work on one GPU belongs.
struct ThreadStream {
  StreamView stream;
  bool is_callers;  ///< whether the caller chose it for ExecuTorch, and so knows when the results are there
};

/// In this order: the stream that the caller set through ExecuTorch's CUDA extension, when that library is in
/// the process; the one set through our own guard; PyTorch's current stream, when PyTorch's CUDA part is in
/// the process and a side stream is current; the default stream of this thread.
ThreadStream thread_stream(int device);

}  // namespace executorch::backends::tensorrt
