#pragma once

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/cpp/support/fake_engine.h"
#include "tests/cpp/support/tensors.h"

namespace executorch::backends::tensorrt::testing {

/// What a program and its loader say beside the blob.
struct LoadRequest {
  std::vector<std::pair<std::string, std::string>> compile_specs;
  std::vector<executorch::runtime::BackendOption> options;
  const char* method = "forward";
  const executorch::runtime::NamedDataMap* named_data = nullptr;
};

/// A program that asks for CUDA graphs.
inline LoadRequest with_graphs() {
  LoadRequest request;
  request.compile_specs = {{"use_cuda_graphs", "1"}};
  return request;
}

executorch::runtime::BackendOption option(const char* key, executorch::runtime::OptionValue value);
executorch::runtime::BackendOption text_option(const char* key, const std::string& value);

/// One delegate, used through ExecuTorch's backend registry as a program uses it.
class Delegate {
 public:
  static executorch::runtime::Result<Delegate> load(const std::vector<uint8_t>& blob,
                                                    const LoadRequest& request = {});
  static executorch::runtime::Result<Delegate> load(const FakeEngine& engine,
                                                    const LoadRequest& request = {}) {
    return load(engine.blob(), request);
  }

  ~Delegate();
  Delegate(Delegate&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Delegate& operator=(Delegate&&) = delete;

  /// Gives up the handle; the caller destroys it.
  executorch::runtime::DelegateHandle* release() { return std::exchange(handle_, nullptr); }

  executorch::runtime::Error run(const std::vector<Tensor*>& tensors);
  /// Runs with any values as arguments.
  executorch::runtime::Error run_values(std::vector<executorch::runtime::EValue>& values);

 private:
  explicit Delegate(executorch::runtime::DelegateHandle* handle) : handle_(handle) {}
  executorch::runtime::DelegateHandle* handle_;
};

/// The backend as registered, null when it is not.
executorch::runtime::BackendInterface* backend();

}  // namespace executorch::backends::tensorrt::testing
