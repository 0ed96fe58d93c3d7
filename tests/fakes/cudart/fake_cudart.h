#pragma once

// A CUDA runtime without a GPU, for tests: the functions of cuda_runtime_api.h that the delegate calls, and
// the controls below. What it is strict about, so that mistakes show without a race or a device:
//
// - Work on a stream is deferred until something waits for it. A missing wait reads stale data every time.
// - Device memory cannot be touched from the host (the addresses are mapped without access) and is poisoned
// with 0xA5.
//   Kernels reach it through `fake_cuda_reach`.
// - Handles, bounds and lifetimes are checked; each violation is an error code and an entry in
// `fake_cuda_violations`.
// - Pageable memory behaves as documented: copies to the device read it at the call, copies from the device
// are
//   complete on return. Copies from and to pinned memory are deferred.
//
// Every function may be called from any thread.

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Forgets counters, injected failures, violations and settings: two devices again. Live memory and handles
/// stay. The calling thread's current device becomes 0 and its last error is cleared.
void fake_cuda_reset(void);

/// The number of devices. 0: a driver that sees no GPU (cudaErrorNoDevice); -1: no driver
/// (cudaErrorInsufficientDriver). At process start the environment variable FAKE_CUDA_DEVICES decides, else
/// there are 2.
void fake_cuda_set_devices(int count);
void fake_cuda_set_compute_capability(int device, int major, int minor);
/// Whether a device shares the host's memory, as on a Jetson.
void fake_cuda_set_integrated(int device, int integrated);
/// Bytes of each device; more cannot be allocated.
void fake_cuda_set_memory(size_t bytes);

/// Makes the n-th call from now (1 is the next) of `function` return `error`; a null `function` means any
/// call. Functions that release something (cudaFree..., ...Destroy) release it all the same: CUDA reports
/// earlier, asynchronous failures there. One failure can be armed at a time; 0 disarms.
void fake_cuda_fail(const char* function, long n, cudaError_t error);
/// Whether the armed failure has happened.
int fake_cuda_failed(void);

/// Makes the work that is queued next on any stream fail when it runs: the following wait returns `error`.
void fake_cuda_fail_work(cudaError_t error);

/// A counter by name; -1 for an unknown name. Counted since the last reset, except the `live.` ones:
///   live.device_blocks live.device_bytes live.pinned_blocks live.managed_blocks live.streams live.events
///   live.graphs copies.<kind> and bytes.<kind>, kind in host_to_device device_to_host device_to_device
///   host_to_host host_waits (calls that blocked the host on queued work), legacy_stream_work, kernels,
///   graph_launches, violations calls (all), calls.<function>
long fake_cuda_count(const char* name);

/// What was done wrong since the last reset, one sentence per line. Valid until the next call on this thread.
const char* fake_cuda_violations(void);

/// Gives a stream the green context that the driver's cuStreamGetGreenCtx then answers; any non-null number.
void fake_cuda_set_green_context(cudaStream_t stream, void* context);
/// Destroys a green context and makes another, which happens to get the same address: streams of the old one
/// may only be destroyed, which is all that the driver allows, and cuGreenCtxGetId gives a number that was
/// never there.
void fake_cuda_replace_green_context(void* context);

/// Makes a block of managed memory ordinary host memory, as freeing it and allocating again at the same
/// address would. The caller frees it with `free`.
void fake_cuda_turn_into_host_memory(void* managed);

/// Queues a "kernel" on a stream of the current device. `destroy` is called for `argument` when neither the
/// stream nor a captured graph needs it any more.
cudaError_t fake_cuda_enqueue(cudaStream_t stream, void (*kernel)(void* argument), void* argument,
                              void (*destroy)(void* argument));

/// For a running kernel: where the bytes of device, managed or pinned memory really are. Null, and a
/// violation, when they are not inside one live block that `device` may use.
void* fake_cuda_reach(const void* address, size_t bytes, int device);

/// For other fakes, so that one set of controls serves all: counts `calls.<function>` and answers with the
/// failure that is armed for it; adds to the counter `live.<name>`; adds to the violations.
cudaError_t fake_cuda_enter(const char* function);
void fake_cuda_add_live(const char* name, long by);
void fake_cuda_violate(const char* sentence);

#ifdef __cplusplus
}  // extern "C"
#endif
