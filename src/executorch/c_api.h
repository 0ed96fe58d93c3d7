#pragma once

// The C functions that the library exports: for the Python module `_native` and for the installed header
// `executorch/backends/tensorrt/caller_stream.h`. No exception leaves them; every one may be called from any
// thread.

#include <stddef.h>
#include <stdint.h>

#define TENSORRT_EXECUTORCH_EXPORT __attribute__((visibility("default")))

extern "C" {

/// The version of this library, such as "0.2.0". Static lifetime.
TENSORRT_EXECUTORCH_EXPORT const char* tensorrt_executorch_version();

/// The ExecuTorch `Error` code that registering `TensorRTBackend` gave at load time; 0 when it is ours.
TENSORRT_EXECUTORCH_EXPORT int tensorrt_executorch_registration_error();

/// Path of the shared library whose code serves the name `TensorRTBackend` now; "" when nobody does.
/// Valid until the next call on the same thread.
TENSORRT_EXECUTORCH_EXPORT const char* tensorrt_executorch_backend_owner();

/// Whether this library brought ExecuTorch's CUDA `DeviceAllocator` (else "why" says who did or what switched
/// it off).
TENSORRT_EXECUTORCH_EXPORT bool tensorrt_executorch_owns_device_allocator();
TENSORRT_EXECUTORCH_EXPORT const char* tensorrt_executorch_device_allocator_reason();

/// Adds a site-packages folder in which TensorRT wheels are looked for, after those beside this library.
TENSORRT_EXECUTORCH_EXPORT void tensorrt_executorch_add_search_folder(const char* folder);

/// Tells what this machine has, as pairs of key and value: `cuda.driver`, `cuda.runtime`, `cuda.devices`,
/// `cuda.error`, `device.<n>.name`, `device.<n>.compute_capability`, `device.<n>.memory_bytes`, and for each
/// flavour of TensorRT
/// (`rtx`, `full`, `lean`, `dispatch`): `tensorrt.<flavour>.path`, `.version` or `.error`. Opens TensorRT
/// libraries.
TENSORRT_EXECUTORCH_EXPORT void tensorrt_executorch_describe(void (*visit)(void* context, const char* key,
                                                                           const char* value),
                                                             void* context);

/// Tells what every loaded engine did, engine by engine in the order of loading: `label`, `device`, the
/// counters and bytes of engine/stats_report.h, and `fallback: <reason>` with its count. Values are decimal
/// numbers but for `label`.
TENSORRT_EXECUTORCH_EXPORT void tensorrt_executorch_visit_stats(
    void (*visit)(void* context, size_t engine, const char* key, const char* value), void* context);

/// Compiles the kernels of a delegate blob's engine on the GPU that the blob names, and hands them to `take`
/// with the key under which a program carries them as named data. Returns the ExecuTorch `Error` code, after
/// one sentence in ExecuTorch's log; without TensorRT-RTX or a GPU it is `NotFound`, for an engine of
/// TensorRT, which holds its kernels already, `NotSupported`.
TENSORRT_EXECUTORCH_EXPORT int tensorrt_executorch_compile_kernels(
    const void* blob, size_t size_bytes,
    void (*take)(void* context, const char* key, const void* kernels, size_t size_bytes), void* context);

/// How many delegates this thread has loaded so far, and the handle of the last one, which is valid as long
/// as the method that brought it.
TENSORRT_EXECUTORCH_EXPORT uint64_t tensorrt_executorch_last_load(void** handle);

/// The caller's stream of this thread. `stream` is a `cudaStream_t`; null is a stream like any other.
/// `set` and `clear` replace the whole state and are used in pairs by scope guards, which save and restore
/// it.
TENSORRT_EXECUTORCH_EXPORT bool tensorrt_executorch_get_caller_stream(void** stream);
TENSORRT_EXECUTORCH_EXPORT void tensorrt_executorch_set_caller_stream(void* stream);
TENSORRT_EXECUTORCH_EXPORT void tensorrt_executorch_clear_caller_stream();

}  // extern "C"
