#pragma once

// The C functions with which `trt-executorch bench` runs the loaded engines without the delegate. As in
// c_api.h, no exception leaves them; results are ExecuTorch's `Error` codes. One object belongs to one thread
// at a time.

#include "executorch/c_api.h"

extern "C" {

/// Engines of this process, run one after the other with nothing around them.
struct tensorrt_executorch_bare_engines;

/// Makes them from loaded engines, by their numbers in the order of loading. Each must have been called; its
/// last call's shapes are used. `engines` is null after an error.
TENSORRT_EXECUTORCH_EXPORT int tensorrt_executorch_bare_create(const size_t* numbers, size_t count,
                                                               tensorrt_executorch_bare_engines** engines);
TENSORRT_EXECUTORCH_EXPORT void tensorrt_executorch_bare_destroy(tensorrt_executorch_bare_engines* engines);

/// Why they cannot be run as CUDA graphs; "" when they can. Lives as long as `engines`.
TENSORRT_EXECUTORCH_EXPORT const char* tensorrt_executorch_bare_no_graphs_because(
    const tensorrt_executorch_bare_engines* engines);

/// Microseconds of each of `calls` runs of all engines, each followed by a wait.
TENSORRT_EXECUTORCH_EXPORT int tensorrt_executorch_bare_latencies(tensorrt_executorch_bare_engines* engines,
                                                                  bool graphs, size_t calls,
                                                                  double* microseconds);

/// Microseconds of `calls` runs of all engines together, with one wait behind them.
TENSORRT_EXECUTORCH_EXPORT int tensorrt_executorch_bare_total(tensorrt_executorch_bare_engines* engines,
                                                              bool graphs, size_t calls,
                                                              double* microseconds);

}  // extern "C"
