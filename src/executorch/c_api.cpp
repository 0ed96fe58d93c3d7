#include "executorch/c_api.h"

#include <dlfcn.h>
#include <executorch/runtime/backend/interface.h>

#include <string>

#include "cuda/device_info.h"
#include "engine/compile_kernels.h"
#include "engine/stats_report.h"
#include "executorch/contain.h"
#include "executorch/registration.h"
#include "tensorrt/library_search.h"

namespace executorch::backends::tensorrt {

namespace {

struct Visitor {
  void (*visit)(void* context, const char* key, const char* value);
  void* context;
  void operator()(const std::string& key, const std::string& value) const {
    visit(context, key.c_str(), value.c_str());
  }
};

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void describe_cuda(const Visitor& tell) {
  int runtime_version = 0;
  int driver_version = 0;
  if (cudaRuntimeGetVersion(&runtime_version) == cudaSuccess) {
    tell("cuda.runtime", version_text(runtime_version));
  }
  if (cudaDriverGetVersion(&driver_version) == cudaSuccess && driver_version != 0) {
    tell("cuda.driver", version_text(driver_version));
  }
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    tell("cuda.error", cudaGetErrorString(status));
    count = 0;
  }
  tell("cuda.devices", std::to_string(count));
  for (int device = 0; device < count; ++device) {
    auto info = device_info(device);
    if (info.ok()) {
      const std::string prefix = "device." + std::to_string(device);
      tell(prefix + ".name", info->name);
      tell(prefix + ".compute_capability", info->compute_capability);
      tell(prefix + ".memory_bytes", std::to_string(info->memory_bytes));
    }
  }
}

void describe_tensorrt(const Visitor& tell) {
  constexpr std::pair<LibraryFlavor, const char*> kFlavors[] = {{LibraryFlavor::kRTX, "rtx"},
                                                                {LibraryFlavor::kFull, "full"},
                                                                {LibraryFlavor::kLean, "lean"},
                                                                {LibraryFlavor::kDispatch, "dispatch"}};
  for (const auto& [flavor, name] : kFlavors) {
    const std::string prefix = std::string("tensorrt.") + name;
    std::string why;
    if (const Library* library = find_flavor(flavor, why)) {
      tell(prefix + ".path", library->path());
      tell(prefix + ".version", library->version().text());
    } else {
      tell(prefix + ".error", why);
    }
  }
}

}  // namespace

}  // namespace executorch::backends::tensorrt

using namespace executorch::backends::tensorrt;

extern "C" {

const char* tensorrt_executorch_version() { return TENSORRT_EXECUTORCH_VERSION; }

int tensorrt_executorch_registration_error() { return static_cast<int>(registration().error); }

const char* tensorrt_executorch_backend_owner() {
  const auto* backend = executorch::runtime::get_backend_class(kBackendName);
  Dl_info info{};
  // The vtable of the object lies in the library that defined its class.
  const bool known = backend != nullptr && dladdr(*reinterpret_cast<void* const*>(backend), &info) != 0;
  thread_local std::string owner;
  owner = known ? info.dli_fname : "";
  return owner.c_str();
}

bool tensorrt_executorch_owns_device_allocator() { return registration().allocator.is_ours; }

const char* tensorrt_executorch_device_allocator_reason() { return registration().allocator.reason.c_str(); }

void tensorrt_executorch_add_search_folder(const char* folder) { add_search_folder(folder); }

void tensorrt_executorch_describe(void (*visit)(void*, const char*, const char*), void* context) {
  const Visitor tell{visit, context};
  describe_cuda(tell);
  describe_tensorrt(tell);
}

void tensorrt_executorch_visit_stats(void (*visit)(void*, size_t, const char*, const char*), void* context) {
  size_t index = 0;
  for (const EngineReport& report : report_engines()) {
    visit(context, index, "label", report.label.c_str());
    visit(context, index, "device", std::to_string(report.device).c_str());
    for (const auto& [name, value] : report.numbers) {
      visit(context, index, name.c_str(), std::to_string(value).c_str());
    }
    for (const auto& [reason, count] : report.fallbacks) {
      visit(context, index, ("fallback: " + reason).c_str(), std::to_string(count).c_str());
    }
    ++index;
  }
}

int tensorrt_executorch_compile_kernels(const void* blob, size_t size_bytes,
                                        void (*take)(void*, const char*, const void*, size_t),
                                        void* context) {
  return static_cast<int>(contain("Compiling kernels", [&] {
    auto kernels = compile_kernels({static_cast<const uint8_t*>(blob), size_bytes}, "the engine");
    if (kernels.ok()) {
      take(context, kernels->key.c_str(), kernels->sealed.data(), kernels->sealed.size());
    }
    return kernels.error();
  }));
}

}  // extern "C"
