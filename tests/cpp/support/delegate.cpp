#include "tests/cpp/support/delegate.h"

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/core/evalue.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace executorch::backends::tensorrt::testing {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendInterface;
using executorch::runtime::BackendOption;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

namespace {

std::vector<CompileSpec> to_specs(const LoadRequest& request) {
  std::vector<CompileSpec> specs;
  for (const auto& [key, value] : request.compile_specs) {
    specs.push_back({key.c_str(), {const_cast<char*>(value.data()), value.size()}});
  }
  return specs;
}

}  // namespace

BackendOption option(const char* key, executorch::runtime::OptionValue value) {
  BackendOption result{};
  std::strncpy(result.key, key, sizeof(result.key) - 1);
  result.value = value;
  return result;
}

BackendOption text_option(const char* key, const std::string& value) {
  std::array<char, executorch::runtime::kMaxOptionValueLength> text{};
  value.copy(text.data(), text.size() - 1);
  return option(key, text);
}

BackendInterface* backend() { return executorch::runtime::get_backend_class("TensorRTBackend"); }

Result<Delegate> Delegate::load(const std::vector<uint8_t>& blob, const LoadRequest& request) {
  // A copy that is gone once the delegate has freed it, as ExecuTorch may then unmap the segment.
  auto bytes = std::make_unique<std::vector<uint8_t>>(blob);
  FreeableBuffer buffer(
      bytes->data(), bytes->size(),
      [](void* context, void*, size_t) {
        static_cast<std::unique_ptr<std::vector<uint8_t>>*>(context)->reset();
      },
      &bytes);
  executorch::extension::MallocMemoryAllocator allocator;
  executorch::runtime::BackendInitContext context(&allocator, nullptr, request.method, request.named_data,
                                                  {request.options.data(), request.options.size()});
  std::vector<CompileSpec> specs = to_specs(request);
  Result<DelegateHandle*> handle =
      backend()->init(context, &buffer, ArrayRef<CompileSpec>(specs.data(), specs.size()));
  if (!handle.ok()) {
    return handle.error();
  }
  EXPECT_EQ(bytes, nullptr) << "a loaded delegate keeps no second copy of its engine";
  return Delegate(*handle);
}

Delegate::~Delegate() {
  if (handle_ != nullptr) {
    backend()->destroy(handle_);
  }
}

Error Delegate::run_values(std::vector<EValue>& values) {
  std::vector<EValue*> arguments;
  std::transform(values.begin(), values.end(), std::back_inserter(arguments),
                 [](EValue& value) { return &value; });
  executorch::runtime::BackendExecutionContext context;
  return backend()->execute(context, handle_, Span<EValue*>(arguments.data(), arguments.size()));
}

Error Delegate::run(const std::vector<Tensor*>& tensors) {
  std::vector<EValue> values;
  for (const Tensor* tensor : tensors) {
    values.emplace_back(*tensor);
  }
  return run_values(values);
}

}  // namespace executorch::backends::tensorrt::testing
