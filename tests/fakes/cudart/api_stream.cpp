// Streams and events.

#include <algorithm>
#include <string>
#include <utility>

#include "fake_cudart.h"
#include "memory.h"
#include "stream.h"

using namespace fake_cuda;

namespace {

constexpr cudaError_t kBadHandle = cudaErrorInvalidResourceHandle;

Event* event_of(cudaEvent_t handle) {
  const auto it = handles().events.find(handle);
  if (it == handles().events.end()) {
    violation("an event handle is not that of a live event");
    return nullptr;
  }
  return it->second.get();
}

cudaError_t create_stream(cudaStream_t* handle, unsigned int flags) {
  auto stream = std::make_shared<Stream>(current_device(), (flags & cudaStreamNonBlocking) == 0);
  handles().all.push_back(stream);
  *handle = reinterpret_cast<cudaStream_t>(stream.get());
  handles().streams.insert(std::move(stream));
  return cudaSuccess;
}

cudaError_t destroy_stream(cudaStream_t handle) {
  const auto stream = stream_of(handle);
  if (stream == nullptr || handles().streams.erase(stream) == 0) {
    return kBadHandle;  // its work, if there is any, stays queued
  }
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event_handle, cudaStream_t stream_handle) {
  Event* event = event_of(event_handle);
  const auto stream = stream_of(stream_handle);
  if (event == nullptr || stream == nullptr) {
    return kBadHandle;
  }
  if (event->device != stream->device) {
    violation("cudaEventRecord: event and stream are of different devices");
    return kBadHandle;
  }
  const cudaError_t error = submit(stream, {});
  event->recorded = true;
  event->point = end_of(stream);
  event->capture = stream->capture;
  return error;
}

/// A stream that waits for captured work becomes part of the capture.
cudaError_t join_capture(const std::shared_ptr<Stream>& stream, const Event& event) {
  const auto& capture = event.capture;
  if (stream->capture == nullptr) {
    stream->capture = capture;
    capture->members.push_back(stream);
    capture->unjoined.insert(stream.get());
  } else if (stream->capture != capture) {
    return cudaErrorStreamCaptureUnsupported;
  }
  if (capture->members.front().lock() == stream) {
    capture->unjoined.erase(event.point.stream.get());
  }
  return cudaSuccess;
}

cudaError_t wait_event(cudaStream_t stream_handle, cudaEvent_t event_handle) {
  Event* event = event_of(event_handle);
  const auto stream = stream_of(stream_handle);
  if (event == nullptr || stream == nullptr) {
    return kBadHandle;
  }
  if (event->capture != nullptr) {
    return join_capture(stream, *event);
  }
  if (stream->capture != nullptr && event->recorded) {
    stream->capture->invalidated = true;  // work outside of the capture
    return cudaErrorStreamCaptureIsolation;
  }
  return event->recorded ? submit(stream, {{event->point}, {}}) : cudaSuccess;
}

constexpr int kDriverInvalidHandle = 400;

/// `CUresult cuStreamGetGreenCtx(CUstream, CUgreenCtx*)`.
int stream_green_context(cudaStream_t handle, void** context) {
  const Lock lock(mutex());
  const auto stream = stream_of(handle);
  if (stream == nullptr) {
    return kDriverInvalidHandle;
  }
  *context = stream->green_context;
  return 0;
}

constexpr int kDriverInvalidValue = 1;

/// `CUresult cuGreenCtxGetId(CUgreenCtx, unsigned long long*)`.
int green_context_id(void* context, unsigned long long* id) {
  const Lock lock(mutex());
  if (context == nullptr) {
    return kDriverInvalidValue;
  }
  static unsigned long long last = 0;
  auto [it, is_new] = handles().green_contexts.try_emplace(context, 0);
  it->second = is_new ? ++last : it->second;
  *id = it->second;
  return 0;
}

/// `CUresult cuGreenCtxStreamCreate(CUstream*, CUgreenCtx, unsigned, int)`.
int create_green_stream(cudaStream_t* handle, void* context, unsigned flags, int) {
  if (context == nullptr || flags != cudaStreamNonBlocking) {
    violation("cuGreenCtxStreamCreate: the context is null, or the stream is not CU_STREAM_NON_BLOCKING");
    return kDriverInvalidValue;
  }
  const cudaError_t error =
      call("cuGreenCtxStreamCreate", [&](Lock&) { return create_stream(handle, flags); });
  if (error == cudaSuccess) {
    fake_cuda_set_green_context(*handle, context);
  }
  return error;
}

/// `CUresult cuStreamGetId(CUstream, unsigned long long*)`.
int stream_id(cudaStream_t handle, unsigned long long* id) {
  const Lock lock(mutex());
  const auto stream = stream_of(handle);
  if (stream == nullptr) {
    return kDriverInvalidHandle;
  }
  *id = stream->id;
  return 0;
}

/// `CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus*)`.
int stream_is_capturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Lock lock(mutex());
  const auto stream = stream_of(handle);
  if (stream == nullptr) {
    return kDriverInvalidHandle;
  }
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return 0;
}

void* driver_function(const std::string& name) {
  return name == "cuStreamGetGreenCtx"      ? reinterpret_cast<void*>(&stream_green_context)
         : name == "cuGreenCtxGetId"        ? reinterpret_cast<void*>(&green_context_id)
         : name == "cuGreenCtxStreamCreate" ? reinterpret_cast<void*>(&create_green_stream)
         : name == "cuStreamGetId"          ? reinterpret_cast<void*>(&stream_id)
         : name == "cuStreamIsCapturing"    ? reinterpret_cast<void*>(&stream_is_capturing)
         : name == "cuPointerGetAttribute"  ? reinterpret_cast<void*>(&driver_pointer_attribute)
                                            : nullptr;
}

struct Kernel {
  void (*run)(void*);
  void* argument;
  void (*destroy)(void*);

  ~Kernel() {
    if (destroy != nullptr) {
      destroy(argument);
    }
  }
};

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return call("cudaStreamCreate", [&](Lock&) { return create_stream(stream, cudaStreamDefault); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return call("cudaStreamCreateWithFlags", [&](Lock&) { return create_stream(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  return call("cudaStreamCreateWithPriority", [&](Lock&) { return create_stream(stream, flags); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return release_call("cudaStreamDestroy", [&](Lock&) { return destroy_stream(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", [&](Lock& lock) {
    const auto stream = stream_of(handle);
    if (stream == nullptr) {
      return kBadHandle;
    }
    const cudaError_t error = refuse_in_capture(stream);
    return error != cudaSuccess ? error : wait_for_stream(lock, stream);
  });
}

// Each question lets one piece of work happen, so that a polling loop ends.
cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return call("cudaStreamGetId", [&](Lock&) {
    const auto stream = stream_of(handle);
    if (stream == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    *id = stream->id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call("cudaStreamQuery", [&](Lock& lock) {
    const auto stream = stream_of(handle);
    if (stream == nullptr) {
      return kBadHandle;
    }
    if (const cudaError_t error = refuse_in_capture(stream); error != cudaSuccess) {
      return error;
    }
    return advance(lock, end_of(stream)) ? std::exchange(stream->error, cudaSuccess) : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return call("cudaStreamWaitEvent", [&](Lock&) { return wait_event(stream, event); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return call("cudaStreamGetDevice", [&](Lock&) {
    const auto stream = stream_of(handle);
    if (stream == nullptr) {
      return kBadHandle;
    }
    *device = stream->device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  return call("cudaStreamGetFlags", [&](Lock&) {
    const auto stream = stream_of(handle);
    if (stream == nullptr) {
      return kBadHandle;
    }
    *flags = stream->blocking || is_legacy(handle) ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned int) {
  return call("cudaEventCreateWithFlags", [&](Lock&) {
    auto event = std::make_unique<Event>();
    event->device = current_device();
    *handle = reinterpret_cast<cudaEvent_t>(event.get());
    handles().events[*handle] = std::move(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return release_call("cudaEventDestroy", [&](Lock&) {
    if (event_of(handle) == nullptr) {
      return kBadHandle;
    }
    handles().events.erase(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", [&](Lock&) { return record(event, stream); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call("cudaEventSynchronize", [&](Lock& lock) {
    Event* event = event_of(handle);
    if (event == nullptr || event->capture != nullptr) {
      return event == nullptr ? kBadHandle : cudaErrorCapturedEvent;
    }
    if (!event->recorded) {
      return cudaSuccess;
    }
    const Point point = event->point;
    count("host_waits");
    wait_for(lock, point);
    return std::exchange(point.stream->error, cudaSuccess);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call("cudaEventQuery", [&](Lock& lock) {
    Event* event = event_of(handle);
    if (event == nullptr || event->capture != nullptr) {
      return event == nullptr ? kBadHandle : cudaErrorCapturedEvent;
    }
    const Point point = event->point;
    return !event->recorded || advance(lock, point) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&](Lock&) {
    *milliseconds = 0;  // nothing takes time here
    return event_of(start) == nullptr || event_of(end) == nullptr ? kBadHandle : cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return call("cudaLaunchHostFunc", [&](Lock&) {
    const auto stream = stream_of(handle);
    return stream == nullptr ? kBadHandle : submit(stream, {{}, [=] {
                                                              function(argument);
                                                              return cudaSuccess;
                                                            }});
  });
}

void fake_cuda_set_green_context(cudaStream_t handle, void* context) {
  const Lock lock(mutex());
  if (const auto stream = stream_of(handle); stream != nullptr) {
    stream->green_context = context;
  }
}

void fake_cuda_replace_green_context(void* context) {
  const Lock lock(mutex());
  handles().green_contexts.erase(context);
  for (const auto& stream : handles().streams) {
    stream->is_detached |= stream->green_context == context;
  }
}

// The driver's functions, as far as there are any.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                             unsigned long long, cudaDriverEntryPointQueryResult* result) {
  return call("cudaGetDriverEntryPointByVersion", [&](Lock&) {
    *function = driver_function(symbol);
    *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}

cudaError_t fake_cuda_enqueue(cudaStream_t handle, void (*run)(void*), void* argument,
                              void (*destroy)(void*)) {
  auto kernel = std::shared_ptr<Kernel>(new Kernel{run, argument, destroy});
  return call("kernel", [&](Lock&) {
    const auto stream = stream_of(handle);
    if (stream == nullptr) {
      return kBadHandle;
    }
    if (stream->device != current_device()) {
      violation("a kernel is launched on a stream of device " + std::to_string(stream->device) +
                " while device " + std::to_string(current_device()) + " is current");
      return kBadHandle;
    }
    count("kernels");
    return submit(stream, {{}, [kernel = std::move(kernel)] {
                             kernel->run(kernel->argument);
                             return cudaSuccess;
                           }});
  });
}

}  // extern "C"
