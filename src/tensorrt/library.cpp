#include "tensorrt/library.h"

#include <dlfcn.h>
#include "log/log.h"

#include "tensorrt/diagnostics.h"

namespace executorch::backends::tensorrt {

namespace {

constexpr const char* kFactory = "createInferRuntime_INTERNAL";

// RTX moved 104 methods from 1.4 to 1.5 under one SONAME, so a minor that nobody has compared is refused;
// TensorRT 11 has only ever appended inside its major.
constexpr int32_t kFirstRTX = 10500;
constexpr int32_t kFirstUnknownRTX = 10800;
constexpr int32_t kLastRTX = 19999;
constexpr int32_t kFirstTensorRT11 = 110000;
constexpr int32_t kFirstTensorRT12 = 120000;
constexpr int32_t kNewestTestedTensorRT11Minor = 4;

template <class Function>
Function symbol(void* handle, const char* name) {
  return reinterpret_cast<Function>(dlsym(handle, name));
}

bool names(const std::string& file, const char* part) { return file.find(part) != std::string::npos; }

}  // namespace

const char* to_string(LibraryFlavor flavor) {
  switch (flavor) {
    case LibraryFlavor::kFull:
      return "TensorRT";
    case LibraryFlavor::kLean:
      return "TensorRT (lean runtime)";
    case LibraryFlavor::kDispatch:
      return "TensorRT (dispatch runtime)";
    case LibraryFlavor::kRTX:
      return "TensorRT-RTX";
  }
  return "TensorRT";
}

std::string LibraryVersion::text() const {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch) + "." +
         std::to_string(build);
}

Result<std::unique_ptr<Library>> Library::open(const std::string& path, bool only_if_loaded,
                                               std::string& why) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | (only_if_loaded ? RTLD_NOLOAD : 0));
  if (handle == nullptr) {
    const char* reason = dlerror();
    why = only_if_loaded ? "not loaded in this process" : reason == nullptr ? "cannot be opened" : reason;
    return Error::NotFound;
  }
  std::unique_ptr<Library> library(new Library);
  library->create_runtime_ = symbol<CreateRuntime>(handle, kFactory);
  Dl_info info{};
  if (library->create_runtime_ == nullptr ||
      dladdr(reinterpret_cast<void*>(library->create_runtime_), &info) == 0) {
    why = path + " is no TensorRT library: it has no function " + kFactory;
    return Error::NotFound;
  }
  library->path_ = info.dli_fname;
  library->base_ = info.dli_fbase;
  ET_CHECK_OK_OR_RETURN_ERROR(library->read_version(handle, why));
  ET_CHECK_OK_OR_RETURN_ERROR(library->choose_flavor(why));
  return library;
}

Error Library::read_version(void* handle, std::string& why) {
  using Number = int32_t (*)();
  const auto whole = symbol<Number>(handle, "getInferLibVersion");
  const auto major = symbol<Number>(handle, "getInferLibMajorVersion");
  const auto minor = symbol<Number>(handle, "getInferLibMinorVersion");
  const auto patch = symbol<Number>(handle, "getInferLibPatchVersion");
  const auto build = symbol<Number>(handle, "getInferLibBuildVersion");
  if (whole == nullptr || major == nullptr || minor == nullptr || patch == nullptr || build == nullptr) {
    why = path_ + " does not state its version; TensorRT 11 or TensorRT-RTX 1.5 to 1.7 is needed";
    return Error::DelegateInvalidCompatibility;
  }
  version_ = {major(), minor(), patch(), build()};
  encoded_version_ = whole();
  if (encoded_version_ != version_.major * 10000 + version_.minor * 100 + version_.patch) {
    why = path_ + " states two versions, " + std::to_string(encoded_version_) + " and " + version_.text() +
          "; reinstall TensorRT";
    return Error::DelegateInvalidCompatibility;
  }
  return Error::Ok;
}

Error Library::choose_flavor(std::string& why) {
  const auto refuse = [&](const std::string& sentence) {
    why = path_ + " is " + sentence;
    return Error::DelegateInvalidCompatibility;
  };
  if (encoded_version_ < kFirstRTX) {
    return refuse("TensorRT-RTX " + version_.text() +
                  ", which is too old; TensorRT-RTX 1.5 to 1.7 is needed");
  }
  if (encoded_version_ <= kLastRTX) {
    if (encoded_version_ >= kFirstUnknownRTX) {
      return refuse("TensorRT-RTX " + version_.text() +
                    ", which this delegate does not know; TensorRT-RTX 1.5 to 1.7 is needed");
    }
    flavor_ = LibraryFlavor::kRTX;
    return Error::Ok;
  }
  if (encoded_version_ < kFirstTensorRT11 || encoded_version_ >= kFirstTensorRT12) {
    return refuse("TensorRT " + version_.text() + "; TensorRT 11 is needed");
  }
  if (version_.minor > kNewestTestedTensorRT11Minor) {
    DELEGATE_LOG(Info, "%s is TensorRT %s, newer than 11.%d, the newest that this delegate was written for.",
                 path_.c_str(), version_.text().c_str(), kNewestTestedTensorRT11Minor);
  }
  const std::string name = path_.substr(path_.rfind('/') + 1);
  flavor_ = names(name, "_lean")       ? LibraryFlavor::kLean
            : names(name, "_dispatch") ? LibraryFlavor::kDispatch
                                       : LibraryFlavor::kFull;
  return Error::Ok;
}

std::string Library::description() const {
  return std::string(to_string(flavor_)) + " " + version_.text() + " (" + path_ + ")";
}

void* Library::create_runtime() const { return create_runtime_(&logger(), encoded_version_); }

bool Library::contains(const void* address) const {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fbase == base_;
}

}  // namespace executorch::backends::tensorrt
