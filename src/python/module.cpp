// The Python module `_native`: a thin layer over the library's C functions and ExecuTorch's own backend
// options. Checks and messages are in Python; here only types are converted.

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bare_engines.h"
#include "direct_call.h"
#include "executorch/c_api.h"

namespace py = pybind11;

namespace executorch::backends::tensorrt {
namespace {

using runtime::BackendOption;
using runtime::Error;
using runtime::OptionValue;
using PythonValue = std::variant<bool, int, std::string>;

constexpr const char* kBackendName = "TensorRTBackend";

/// Copies `text` into a zero-terminated field. False when it does not fit.
template <size_t N>
bool copy_text(const std::string& text, char (&field)[N]) {
  if (text.size() >= N) {
    return false;
  }
  std::fill(std::copy(text.begin(), text.end(), field), field + N, '\0');
  return true;
}

std::optional<OptionValue> to_option_value(const PythonValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    std::array<char, runtime::kMaxOptionValueLength> field{};
    if (text->size() >= field.size()) {
      return std::nullopt;
    }
    std::copy(text->begin(), text->end(), field.begin());
    return field;
  }
  if (const auto* number = std::get_if<int>(&value)) {
    return *number;
  }
  return std::get<bool>(value);
}

PythonValue to_python(const OptionValue& value) {
  if (const auto* text = std::get_if<std::array<char, runtime::kMaxOptionValueLength>>(&value)) {
    return std::string(text->begin(), std::find(text->begin(), text->end(), '\0'));
  }
  if (const auto* number = std::get_if<int>(&value)) {
    return *number;
  }
  return std::get<bool>(value);
}

int set_option(const std::string& name, const PythonValue& value) {
  BackendOption option;
  auto converted = to_option_value(value);
  if (!converted || !copy_text(name, option.key)) {
    return static_cast<int>(Error::InvalidArgument);
  }
  option.value = *converted;
  py::gil_scoped_release release;  // the backend may wait for a call on another thread
  return static_cast<int>(runtime::set_option(kBackendName, {&option, 1}));
}

std::pair<int, PythonValue> get_option(const std::string& name) {
  BackendOption option;
  if (!copy_text(name, option.key)) {
    return {static_cast<int>(Error::InvalidArgument), false};
  }
  Error error;
  {
    py::gil_scoped_release release;
    error = runtime::get_option(kBackendName, {&option, 1});
  }
  return {static_cast<int>(error), to_python(option.value)};
}

std::vector<std::string> registered_backends() {
  std::vector<std::string> names;
  for (size_t i = 0; i < runtime::get_num_registered_backends(); ++i) {
    auto name = runtime::get_backend_name(i);
    if (name.ok()) {
      names.emplace_back(*name);
    }
  }
  return names;
}

std::vector<std::string> registered_operators() {
  std::vector<std::string> names;
  for (const auto& kernel : runtime::get_registered_kernels()) {
    names.emplace_back(kernel.name_);
  }
  return names;
}

using Facts = std::vector<std::pair<std::string, std::string>>;

Facts describe() {
  Facts facts;
  py::gil_scoped_release release;  // opening TensorRT libraries takes a while
  tensorrt_executorch_describe(
      [](void* context, const char* key, const char* value) {
        static_cast<Facts*>(context)->emplace_back(key, value);
      },
      &facts);
  return facts;
}

/// One list of facts for each loaded engine.
std::vector<Facts> stats() {
  std::vector<Facts> engines;
  py::gil_scoped_release release;  // an engine in the middle of a call is waited for
  tensorrt_executorch_visit_stats(
      [](void* context, size_t engine, const char* key, const char* value) {
        auto& all = *static_cast<std::vector<Facts>*>(context);
        all.resize(std::max(all.size(), engine + 1));
        all[engine].emplace_back(key, value);
      },
      &engines);
  return engines;
}

/// ExecuTorch's error code, the key of the named data, and the data.
std::tuple<int, std::string, py::bytes> compile_kernels(const py::bytes& blob) {
  struct Kernels {
    std::string key;
    std::string data;
  } kernels;
  const auto bytes = static_cast<std::string_view>(blob);
  int error = 0;
  {
    py::gil_scoped_release release;  // compiling takes seconds
    error = tensorrt_executorch_compile_kernels(
        bytes.data(), bytes.size(),
        [](void* context, const char* key, const void* data, size_t size_bytes) {
          auto& taken = *static_cast<Kernels*>(context);
          taken.key = key;
          taken.data.assign(static_cast<const char*>(data), size_bytes);
        },
        &kernels);
  }
  return {error, kernels.key, py::bytes(kernels.data)};
}

std::optional<uintptr_t> get_caller_stream() {
  void* stream = nullptr;
  if (!tensorrt_executorch_get_caller_stream(&stream)) {
    return std::nullopt;
  }
  return reinterpret_cast<uintptr_t>(stream);
}

void set_caller_stream(uintptr_t handle) {
  tensorrt_executorch_set_caller_stream(
      reinterpret_cast<void*>(handle));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace
}  // namespace executorch::backends::tensorrt

PYBIND11_MODULE(_native, module) {
  namespace tensorrt = executorch::backends::tensorrt;
  module.doc() = "The delegate's C functions; use the Python package around it.";
  module.def("version", &tensorrt_executorch_version);
  module.def("registration_error", &tensorrt_executorch_registration_error);
  module.def("backend_owner", &tensorrt_executorch_backend_owner);
  module.def("is_registered",
             [] { return executorch::runtime::get_backend_class(tensorrt::kBackendName) != nullptr; });
  module.def("registered_backends", &tensorrt::registered_backends);
  module.def("registered_operators", &tensorrt::registered_operators);
  module.def("owns_device_allocator", &tensorrt_executorch_owns_device_allocator);
  module.def("device_allocator_reason", &tensorrt_executorch_device_allocator_reason);
  module.def("add_search_folder", &tensorrt_executorch_add_search_folder, py::arg("folder"));
  module.def("describe", &tensorrt::describe);
  module.def("stats", &tensorrt::stats);
  module.def("set_option", &tensorrt::set_option, py::arg("name"), py::arg("value"));
  module.def("get_option", &tensorrt::get_option, py::arg("name"));
  module.def("compile_kernels", &tensorrt::compile_kernels, py::arg("blob"));
  module.def("get_caller_stream", &tensorrt::get_caller_stream);
  module.def("set_caller_stream", &tensorrt::set_caller_stream, py::arg("handle"));
  module.def("clear_caller_stream", &tensorrt_executorch_clear_caller_stream);
  tensorrt::add_bare_engines(module);
  tensorrt::add_direct_calls(module);
}
