// Devices, versions and errors.

#include <cstdio>
#include <utility>

#include "memory.h"
#include "stream.h"

using namespace fake_cuda;

namespace {

constexpr int kVersion = 13000;

bool exists(int device) { return device >= 0 && device < control().device_count; }

const char* name_of(cudaError_t error) {
  switch (error) {
#define NAME(value) \
  case value:       \
    return #value
    NAME(cudaSuccess);
    NAME(cudaErrorInvalidValue);
    NAME(cudaErrorMemoryAllocation);
    NAME(cudaErrorInitializationError);
    NAME(cudaErrorCudartUnloading);
    NAME(cudaErrorInvalidPitchValue);
    NAME(cudaErrorInvalidMemcpyDirection);
    NAME(cudaErrorInsufficientDriver);
    NAME(cudaErrorNoDevice);
    NAME(cudaErrorInvalidDevice);
    NAME(cudaErrorInvalidResourceHandle);
    NAME(cudaErrorNotReady);
    NAME(cudaErrorIllegalAddress);
    NAME(cudaErrorLaunchFailure);
    NAME(cudaErrorNotSupported);
    NAME(cudaErrorStreamCaptureUnsupported);
    NAME(cudaErrorStreamCaptureInvalidated);
    NAME(cudaErrorStreamCaptureUnjoined);
    NAME(cudaErrorStreamCaptureUnmatched);
    NAME(cudaErrorStreamCaptureImplicit);
    NAME(cudaErrorCapturedEvent);
    NAME(cudaErrorUnknown);
#undef NAME
    default:
      return "cudaErrorOther";
  }
}

const char* sentence_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "an error of the fake CUDA runtime";
  }
}

int attribute_of(const Device& device, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      return device.major;
    case cudaDevAttrComputeCapabilityMinor:
      return device.minor;
    case cudaDevAttrIntegrated:
      return device.integrated;
    case cudaDevAttrMultiProcessorCount:
      return 132;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrMemoryPoolsSupported:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count_out) {
  return call("cudaGetDeviceCount", [&](Lock&) {
    *count_out = control().device_count;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&](Lock&) {
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](Lock&) {
    if (!exists(device)) {
      return cudaErrorInvalidDevice;
    }
    current_device() = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&](Lock&) {
    if (!exists(device)) {
      return cudaErrorInvalidDevice;
    }
    const Device& facts = control().devices[static_cast<size_t>(device)];
    *properties = {};
    std::snprintf(properties->name, sizeof(properties->name), "Fake GPU %d", device);
    properties->major = facts.major;
    properties->minor = facts.minor;
    properties->totalGlobalMem = control().memory_bytes;
    properties->multiProcessorCount = attribute_of(facts, cudaDevAttrMultiProcessorCount);
    properties->unifiedAddressing = 1;
    properties->managedMemory = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&](Lock&) {
    if (!exists(device)) {
      return cudaErrorInvalidDevice;
    }
    *value = attribute_of(control().devices[static_cast<size_t>(device)], attribute);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&](Lock& lock) {
    if (const cudaError_t error = refuse_unsafe_call(); error != cudaSuccess) {
      return error;
    }
    count("host_waits");
    return wait_for_device(lock, current_device());
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Lock lock(mutex());
  *version = control().device_count < 0 ? 0 : kVersion;  // as documented: 0 when there is no driver
  return remember(enter("cudaDriverGetVersion"));
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  const Lock lock(mutex());
  *version = kVersion;
  return remember(enter("cudaRuntimeGetVersion"));
}

// The four below neither count nor fail: they report failures.
cudaError_t cudaGetLastError() { return std::exchange(last_error(), cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error(); }
const char* cudaGetErrorName(cudaError_t error) { return name_of(error); }
const char* cudaGetErrorString(cudaError_t error) { return sentence_of(error); }

}  // extern "C"
