#include "direct_call.h"

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dlpack.h"
#include "executorch/direct_call_api.h"

namespace py = pybind11;

namespace executorch::backends::tensorrt {
namespace {

using executorch::aten::ScalarType;

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

bool lies_row_after_row(const dlpack::Tensor& tensor) {
  int64_t expected = 1;
  for (int32_t i = tensor.dimensions; i-- > 0;) {
    if (tensor.strides != nullptr && tensor.sizes[i] != 1 && tensor.strides[i] != expected) {
      return false;
    }
    expected *= tensor.sizes[i];
  }
  return expected != 0;  // an empty tensor has no memory
}

void* address_of(const dlpack::Tensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

/// What a tensor must be to take another one's place in a call, but for its address.
class Place {
 public:
  explicit Place(const dlpack::Tensor& tensor)
      : device_(tensor.device), type_(tensor.type), sizes_(tensor.sizes, tensor.sizes + tensor.dimensions) {}

  bool fits(const dlpack::Tensor& tensor) const {
    return tensor.device.type == device_.type && tensor.device.index == device_.index &&
           tensor.type.code == type_.code && tensor.type.bits == type_.bits &&
           tensor.type.lanes == type_.lanes && static_cast<size_t>(tensor.dimensions) == sizes_.size() &&
           std::equal(sizes_.begin(), sizes_.end(), tensor.sizes) && lies_row_after_row(tensor);
  }

 private:
  dlpack::Device device_;
  dlpack::DataType type_;
  std::vector<int64_t> sizes_;
};

/// Calls of a delegate with inputs of one kind, and always the same outputs. Used by one thread at a time, as
/// whoever calls it holds Python's lock.
class DirectCall {
 public:
  DirectCall(void* handle, const py::list& inputs, const py::list& outputs, const py::object& tensor_type)
      : reader_(tensor_type) {
    std::vector<tensorrt_executorch_direct_tensor> tensors;
    for (const py::handle input : inputs) {
      const dlpack::Tensor described = described_for_engine(input, tensors);
      inputs_.emplace_back(described);
    }
    for (const py::handle output : outputs) {
      const dlpack::Tensor described = described_for_engine(output, tensors);
      if (described.device.type == dlpack::Device::kCuda) {
        gpu_ = described.device;
      }
    }
    tensorrt_executorch_direct_call* made = nullptr;
    if (tensorrt_executorch_direct_create(handle, tensors.data(), tensors.size(), &made) != 0) {
      throw std::runtime_error("the delegate takes no direct calls; ExecuTorch's log has the cause");
    }
    call_.reset(made);
  }

  /// True after the engine ran; False, and nothing was done, where these are not the inputs or not the stream
  /// of such a call. Null with a Python exception set when the engine failed.
  PyObject* run(PyObject* inputs) {
    if (!take(inputs) || !keeps_order()) {
      Py_RETURN_FALSE;
    }
    if (const int error = tensorrt_executorch_direct_run(call_.get())) {
      PyErr_Format(PyExc_RuntimeError, "method->execute() failed with error 0x%x", error);
      return nullptr;
    }
    Py_RETURN_TRUE;
  }

 private:
  struct Destroy {
    void operator()(tensorrt_executorch_direct_call* call) const { tensorrt_executorch_direct_destroy(call); }
  };

  dlpack::Tensor described_for_engine(const py::handle& object,
                                      std::vector<tensorrt_executorch_direct_tensor>& tensors) const {
    dlpack::Tensor tensor{};
    const bool is_tensor = reader_.read(object.ptr(), tensor);
    const auto type = is_tensor ? scalar_type(tensor.type) : std::nullopt;
    if (!type.has_value() || !lies_row_after_row(tensor)) {
      throw std::runtime_error("a value is no tensor of a type and layout that an engine has");
    }
    tensors.push_back(
        {static_cast<int>(*type), static_cast<size_t>(tensor.dimensions), tensor.sizes, address_of(tensor)});
    return tensor;
  }

  bool take(PyObject* inputs) {
    if ((!PyList_CheckExact(inputs) && !PyTuple_CheckExact(inputs)) ||
        static_cast<size_t>(PySequence_Fast_GET_SIZE(inputs)) != inputs_.size()) {
      return false;
    }
    PyObject** items = PySequence_Fast_ITEMS(inputs);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      dlpack::Tensor given{};
      if (!reader_.read(items[i], given) || !inputs_[i].fits(given)) {
        return false;
      }
      tensorrt_executorch_direct_move(call_.get(), i, address_of(given));
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
  std::vector<Place> inputs_;
  std::optional<dlpack::Device> gpu_;
  std::unique_ptr<tensorrt_executorch_direct_call, Destroy> call_;
};

constexpr const char* kCapsule = "torch_tensorrt_executorch_runtime.direct_call";

PyObject* call(PyObject* capsule, PyObject* inputs) {
  return static_cast<DirectCall*>(PyCapsule_GetPointer(capsule, kCapsule))->run(inputs);
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
