#pragma once

// The C functions with which Python calls a delegate that ExecuTorch loaded, without ExecuTorch's bindings.
// As in c_api.h, no exception leaves them; results are ExecuTorch's `Error` codes. One object belongs to one
// thread at a time, and is used only while the method is there that brought the delegate.

#include "executorch/c_api.h"

extern "C" {

/// A tensor whose elements lie row after row.
struct tensorrt_executorch_direct_tensor {
  int scalar_type;  ///< the number of ExecuTorch's `ScalarType`
  size_t dimensions;
  const int64_t* sizes;
  void* data;
};

/// Calls of one delegate with tensors whose types and sizes stay the same.
struct tensorrt_executorch_direct_call;

/// Makes it for the delegate `handle` (see `tensorrt_executorch_last_load`) and all its tensors, inputs
/// first. `call` is null after an error.
TENSORRT_EXECUTORCH_EXPORT int tensorrt_executorch_direct_create(
    void* handle, const tensorrt_executorch_direct_tensor* tensors, size_t count,
    tensorrt_executorch_direct_call** call);
TENSORRT_EXECUTORCH_EXPORT void tensorrt_executorch_direct_destroy(tensorrt_executorch_direct_call* call);

/// Moves the `index`-th tensor to other memory, until it is moved again.
TENSORRT_EXECUTORCH_EXPORT void tensorrt_executorch_direct_move(tensorrt_executorch_direct_call* call,
                                                                size_t index, void* data);

/// Runs the engine as ExecuTorch would.
TENSORRT_EXECUTORCH_EXPORT int tensorrt_executorch_direct_run(tensorrt_executorch_direct_call* call);

}  // extern "C"
