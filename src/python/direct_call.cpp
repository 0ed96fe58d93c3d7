#include "direct_call.h"

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/evalue.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dlpack.h"
#include "executorch/c_api.h"

namespace py = pybind11;

namespace executorch::backends::tensorrt {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::TensorImpl;
using runtime::EValue;

std::optional<ScalarType> scalar_type(dlpack::DataType type) {
  using Type = dlpack::DataType;
  static constexpr std::pair<Type, ScalarType> known[] = {
      {{Type::kBool, 8, 1}, ScalarType::Bool},        {{Type::kUInt, 8, 1}, ScalarType::Byte},
      {{Type::kInt, 8, 1}, ScalarType::Char},         {{Type::kInt, 16, 1}, ScalarType::Short},
      {{Type::kInt, 32, 1}, ScalarType::Int},         {{Type::kInt, 64, 1}, ScalarType::Long},
      {{Type::kFloat, 16, 1}, ScalarType::Half},      {{Type::kFloat, 32, 1}, ScalarType::Float},
      {{Type::kBFloat, 16, 1}, ScalarType::BFloat16}, {{Type::kFloat, 64, 1}, ScalarType::Double}};
  const auto* const found = std::find_if(std::begin(known), std::end(known), [&](const auto& pair) {
    return pair.first.code == type.code && pair.first.bits == type.bits && pair.first.lanes == type.lanes;
  });
  return found == std::end(known) ? std::nullopt : std::optional<ScalarType>(found->second);
}

/// How PyTorch's tensors are read: without a reference, a copy or a lock.
class TensorReader {
 public:
  /// Throws where this PyTorch offers no such reading.
  explicit TensorReader(const py::object& tensor_type) : type_(tensor_type), api_(api_of(tensor_type)) {}

  /// False for anything but a plain tensor with memory that can be described; no Python exception is set.
  bool read(PyObject* object, dlpack::Tensor& out) const {
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != type_.ptr()) {
      return false;
    }
    if (api_->describe(object, &out) != 0) {
      PyErr_Clear();
      return false;
    }
    return out.data != nullptr;
  }

  /// Whether work for `device` that is queued on `stream` and PyTorch's own are in one order.
  bool is_current(void* stream, dlpack::Device device) const {
    void* current = nullptr;
    if (api_->current_stream(device.type, device.index, &current) != 0) {
      PyErr_Clear();
      return false;
    }
    return is_legacy(stream) ? is_legacy(current) : stream == current;
  }

 private:
  static const dlpack::ExchangeApi* api_of(const py::object& tensor_type) {
    const py::object capsule = tensor_type.attr(dlpack::kExchangeAttribute);
    const auto* api = static_cast<const dlpack::ExchangeApi*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeCapsule));
    if (api == nullptr) {
      throw py::error_already_set();
    }
    while (api != nullptr && api->major_version != dlpack::kMajorVersion) {
      api = api->older;
    }
    if (api == nullptr || api->describe == nullptr) {
      throw std::runtime_error("PyTorch describes no tensors by DLPack 1");
    }
    return api;
  }

  /// CUDA has two names for its legacy default stream.
  static bool is_legacy(void* stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }

  py::object type_;
  const dlpack::ExchangeApi* api_;
};

/// A tensor of ExecuTorch as it was described once; later descriptions may differ in the address alone.
class Argument {
 public:
  explicit Argument(const dlpack::Tensor& given)
      : device_(given.device),
        type_(given.type),
        wide_sizes_(given.sizes, given.sizes + given.dimensions),
        sizes_(wide_sizes_.begin(), wide_sizes_.end()),
        strides_(sizes_.size()),
        order_(sizes_.size()) {
    const auto type = scalar_type(given.type);
    if (!type.has_value() || !lies_row_after_row(given)) {
      throw std::runtime_error("the tensor is of a type or layout that no engine has");
    }
    TensorImpl::StridesType stride = 1;
    for (size_t i = sizes_.size(); i-- > 0;) {
      strides_[i] = stride;
      stride *= std::max<TensorImpl::SizesType>(sizes_[i], 1);
      order_[i] = static_cast<TensorImpl::DimOrderType>(i);
    }
    impl_ = std::make_unique<TensorImpl>(*type, static_cast<ssize_t>(sizes_.size()), sizes_.data(), nullptr,
                                         order_.data(), strides_.data());
    move_to(given);
  }

  bool fits(const dlpack::Tensor& given) const {
    return given.device.type == device_.type && given.device.index == device_.index &&
           given.type.code == type_.code && given.type.bits == type_.bits &&
           given.type.lanes == type_.lanes && static_cast<size_t>(given.dimensions) == wide_sizes_.size() &&
           std::equal(wide_sizes_.begin(), wide_sizes_.end(), given.sizes) && lies_row_after_row(given);
  }
  void move_to(const dlpack::Tensor& given) {
    impl_->set_data(static_cast<char*>(given.data) + given.byte_offset);
  }

  EValue value() const { return EValue(executorch::aten::Tensor(impl_.get())); }
  dlpack::Device device() const { return device_; }

 private:
  static bool lies_row_after_row(const dlpack::Tensor& given) {
    int64_t expected = 1;
    for (int32_t i = given.dimensions; i-- > 0;) {
      if (given.strides != nullptr && given.sizes[i] != 1 && given.strides[i] != expected) {
        return false;
      }
      expected *= given.sizes[i];
    }
    return expected != 0;  // an empty tensor has no memory
  }

  dlpack::Device device_;
  dlpack::DataType type_;
  std::vector<int64_t> wide_sizes_;
  std::vector<TensorImpl::SizesType> sizes_;
  std::vector<TensorImpl::StridesType> strides_;
  std::vector<TensorImpl::DimOrderType> order_;
  std::unique_ptr<TensorImpl> impl_;
};

/// Calls of a delegate with inputs of one kind, and always the same outputs. Used by one thread at a time, as
/// whoever calls it holds Python's lock.
class DirectCall {
 public:
  DirectCall(void* handle, const py::list& inputs, const py::list& outputs, const py::object& tensor_type)
      : reader_(tensor_type), backend_(runtime::get_backend_class("TensorRTBackend")), handle_(handle) {
    if (backend_ == nullptr || handle == nullptr) {
      throw std::runtime_error("there is no delegate to call");
    }
    describe(inputs, inputs_);
    describe(outputs, outputs_);
    for (const auto* arguments : {&inputs_, &outputs_}) {
      for (const Argument& argument : *arguments) {
        values_.push_back(argument.value());
      }
    }
    for (EValue& value : values_) {
      pointers_.push_back(&value);
    }
    for (const Argument& output : outputs_) {
      if (output.device().type == dlpack::Device::kCuda) {
        gpu_ = output.device();
      }
    }
  }

  /// True after the engine ran; False, and nothing was done, where these are not the inputs or not the stream
  /// of such a call. Null with a Python exception set when the engine failed.
  PyObject* call(PyObject* inputs) {
    if (!accept(inputs) || !keeps_order()) {
      Py_RETURN_FALSE;
    }
    runtime::BackendExecutionContext context;
    const runtime::Error error = backend_->execute(context, handle_, {pointers_.data(), pointers_.size()});
    if (error != runtime::Error::Ok) {
      PyErr_Format(PyExc_RuntimeError, "method->execute() failed with error 0x%x", static_cast<int>(error));
      return nullptr;
    }
    Py_RETURN_TRUE;
  }

 private:
  void describe(const py::list& tensors, std::vector<Argument>& arguments) const {
    for (const py::handle tensor : tensors) {
      dlpack::Tensor described{};
      if (!reader_.read(tensor.ptr(), described)) {
        throw std::runtime_error("the tensor cannot be described by DLPack");
      }
      arguments.emplace_back(described);
    }
  }

  bool accept(PyObject* inputs) {
    if (!PyList_CheckExact(inputs) && !PyTuple_CheckExact(inputs)) {
      return false;
    }
    if (static_cast<size_t>(PySequence_Fast_GET_SIZE(inputs)) != inputs_.size()) {
      return false;
    }
    PyObject** items = PySequence_Fast_ITEMS(inputs);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      dlpack::Tensor given{};
      if (!reader_.read(items[i], given) || !inputs_[i].fits(given)) {
        return false;
      }
      inputs_[i].move_to(given);
    }
    return true;
  }

  /// Results on the GPU are read on PyTorch's stream, so the engine must not run on another one.
  bool keeps_order() const {
    void* stream = nullptr;
    return !gpu_.has_value() || !tensorrt_executorch_get_caller_stream(&stream) ||
           reader_.is_current(stream, *gpu_);
  }

  TensorReader reader_;
  runtime::BackendInterface* backend_;
  void* handle_;
  std::vector<Argument> inputs_;
  std::vector<Argument> outputs_;
  std::vector<EValue> values_;
  std::vector<EValue*> pointers_;
  std::optional<dlpack::Device> gpu_;
};

constexpr const char* kCapsule = "torch_tensorrt_executorch_runtime.direct_call";

PyObject* call(PyObject* capsule, PyObject* inputs) {
  return static_cast<DirectCall*>(PyCapsule_GetPointer(capsule, kCapsule))->call(inputs);
}

PyMethodDef call_definition = {"direct_call", call, METH_O, "Run the engine on a list or tuple of inputs."};

/// A builtin function and no bound method of pybind11, which takes longer to find its way than the call.
py::object direct_call(uintptr_t handle, const py::list& inputs, const py::list& outputs,
                       const py::object& tensor_type) {
  auto made =
      std::make_unique<DirectCall>(reinterpret_cast<void*>(handle),  // NOLINT(performance-no-int-to-ptr)
                                   inputs, outputs, tensor_type);
  const py::capsule capsule(made.release(), kCapsule, [](PyObject* object) {
    delete static_cast<DirectCall*>(PyCapsule_GetPointer(object, kCapsule));
  });
  return py::reinterpret_steal<py::object>(PyCFunction_New(&call_definition, capsule.ptr()));
}

std::pair<uint64_t, uintptr_t> last_load() {
  void* handle = nullptr;
  const uint64_t count = tensorrt_executorch_last_load(&handle);
  return {count, reinterpret_cast<uintptr_t>(handle)};
}

}  // namespace

void add_direct_calls(py::module_& module) {
  module.def("last_load", &last_load);
  module.def("direct_call", &direct_call, py::arg("handle"), py::arg("inputs"), py::arg("outputs"),
             py::arg("tensor_type"));
}

}  // namespace executorch::backends::tensorrt
