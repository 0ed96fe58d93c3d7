// A program of the folder, its tensors, and what the delegate says about its calls.
#pragma once

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/backend/interface.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu.h"

using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;

inline void require(Error error, const std::string& what) {
  if (error != Error::Ok) throw std::runtime_error(what + ": " + executorch::runtime::to_string(error));
}

/// What a load asks the delegate for; nothing leaves it to the program and the process.
struct Wishes {
  std::optional<bool> graphs;
  std::optional<bool> shared_scratch;
};

class Program {
 public:
  explicit Program(const std::filesystem::path& path, Wishes wishes = {})
      : module_(path.string(), executorch::extension::Module::LoadMode::Mmap) {
    executorch::runtime::BackendOptions<2> options;
    if (wishes.graphs) require(options.set_option("use_cuda_graphs", *wishes.graphs), "use_cuda_graphs");
    if (wishes.shared_scratch)
      require(options.set_option("use_shared_activation_scratch", *wishes.shared_scratch), "scratch option");
    executorch::runtime::LoadBackendOptionsMap by_backend;
    if (wishes.graphs || wishes.shared_scratch)
      require(by_backend.set_options("TensorRTBackend", options.view()), "options");
    require(module_.load(by_backend), "loading " + path.string());
  }

  executorch::extension::Module& module() { return module_; }
  void load(const std::string& method = "forward") {
    require(module_.load_method(method), "loading " + method);
  }

  size_t input_bytes(const std::string& method = "forward") { return info(method, 0).nbytes(); }

  /// A tensor of the shape and type of an input, on memory of the caller.
  TensorPtr tensor(void* data, executorch::runtime::etensor::Device claim,
                   const std::string& method = "forward", size_t index = 0) {
    const auto meta = info(method, index);
    return executorch::extension::from_blob(data, {meta.sizes().begin(), meta.sizes().end()},
                                            meta.scalar_type(), claim);
  }
  TensorPtr on_device(void* data, const std::string& method = "forward") {
    return tensor(data, executorch::runtime::etensor::DeviceType::CUDA, method);
  }

  /// Runs a method; the address of its first output.
  void* run(const EValue& input, const std::string& method = "forward") {
    auto outputs = module_.execute(method, {input});
    require(outputs.error(), "running " + method);
    return outputs->at(0).toTensor().mutable_data_ptr();
  }

 private:
  executorch::runtime::TensorInfo info(const std::string& method, size_t index) {
    auto meta = module_.method_meta(method);
    require(meta.error(), "metadata of " + method);
    auto input = meta->input_tensor_meta(index);
    require(input.error(), "metadata of an input");
    return *input;
  }

  executorch::extension::Module module_;
};

/// A total of the delegate over all engines, such as "copied_bytes".
inline uint64_t total(const std::string& name) {
  executorch::runtime::BackendOption option;
  const std::string key = "stats." + name;
  std::copy(key.begin(), key.end(), option.key);
  option.value = std::array<char, executorch::runtime::kMaxOptionValueLength>{};
  require(executorch::runtime::get_option("TensorRTBackend", {&option, 1}), "reading " + key);
  const auto* text = std::get_if<std::array<char, executorch::runtime::kMaxOptionValueLength>>(&option.value);
  if (text == nullptr) throw std::runtime_error(key + " is no text");
  return std::strtoull(text->data(), nullptr, 10);
}

/// Small integers that differ from call to call; the affine programs compute with them exactly.
inline std::vector<float> numbers(size_t count, int seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed) * 13) % 251);
  return values;
}

/// float16 values between 0.125 and 1, as their bits.
inline std::vector<uint16_t> halves(size_t count) {
  std::vector<uint16_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint16_t>(0x3000 + i * 37 % 0xc00);
  return values;
}

/// How many elements are not `2 x + 1`.
inline size_t wrong(const std::vector<float>& x, const std::vector<float>& y) {
  size_t count = 0;
  for (size_t i = 0; i < x.size(); ++i) count += y[i] != 2 * x[i] + 1;
  return count;
}

inline size_t wrong_at(const std::vector<float>& x, const void* y) {
  return wrong(x, gpu::read<float>(y, x.size()));
}
