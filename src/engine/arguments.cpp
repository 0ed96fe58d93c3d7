#include "engine/arguments.h"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <algorithm>
#include <array>

#include "blob/in_quotes.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

/// The allowed sizes as people write them: "[1..8, 256]".
std::string range_text(const Binding& binding) {
  std::string text = "[";
  for (int32_t i = 0; i < binding.min.nb_dims; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(binding.min.d[i]);
    if (binding.max.d[i] != binding.min.d[i]) {
      text += ".." + std::to_string(binding.max.d[i]);
    }
  }
  return text + "]";
}

bool in_range(const Binding& binding, const abi::Dims& shape) {
  for (int32_t i = 0; i < shape.nb_dims; ++i) {
    if (shape.d[i] < binding.min.d[i] || shape.d[i] > binding.max.d[i]) {
      return false;
    }
  }
  return true;
}

/// Whether elements lie in memory as an engine reads them: row after row. Dimensions of size 1 can have any
/// stride.
bool is_row_major(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= sizes[i];
  }
  return true;
}

std::string strides_text(const Tensor& tensor) {
  std::string text = "(";
  for (size_t i = 0; i < tensor.strides().size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.strides()[i]);
  }
  return text + ")";
}

Error check_memory(const Binding& binding, const char* direction, const Tensor& tensor,
                   const std::string& label) {
  if (tensor.scalar_type() != binding.dtype) {
    DELEGATE_LOG(Error,
                 "%s: %s %s is %s, but the engine needs %s. Convert the tensor, or export the model for %s.",
                 label.c_str(), direction, in_quotes(binding.name).c_str(), name_of(tensor.scalar_type()),
                 name_of(binding.dtype), name_of(tensor.scalar_type()));
    return Error::InvalidArgument;
  }
  if (tensor.numel() == 0) {
    return Error::Ok;
  }
  if (!is_row_major(tensor)) {
    DELEGATE_LOG(Error,
                 "%s: %s %s has shape %s with strides %s, but the engine needs contiguous memory. Call "
                 ".contiguous() first.",
                 label.c_str(), direction, in_quotes(binding.name).c_str(),
                 abi::to_string(shape_of(tensor)).c_str(), strides_text(tensor).c_str());
    return Error::InvalidArgument;
  }
  if (tensor.const_data_ptr() == nullptr) {
    DELEGATE_LOG(
        Error,
        "%s: %s %s has no memory. Give the method's input, or set the memory of its output before the call.",
        label.c_str(), direction, in_quotes(binding.name).c_str());
    return Error::InvalidArgument;
  }
  return Error::Ok;
}

}  // namespace

abi::Dims shape_of(const Tensor& tensor) {
  abi::Dims shape{-1, {}};
  const auto sizes = tensor.sizes();
  if (sizes.size() <= static_cast<size_t>(abi::Dims::kMax)) {
    shape.nb_dims = static_cast<int32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), shape.d);
  }
  return shape;
}

Error check_input(const Binding& binding, const Tensor& tensor, const std::string& label) {
  const abi::Dims shape = shape_of(tensor);
  if (shape.nb_dims != binding.shape.nb_dims) {
    DELEGATE_LOG(Error, "%s: input %s has %zd dimensions, but the engine needs %d: %s.", label.c_str(),
                 in_quotes(binding.name).c_str(), static_cast<ssize_t>(tensor.dim()), binding.shape.nb_dims,
                 range_text(binding).c_str());
    return Error::InvalidArgument;
  }
  if (!in_range(binding, shape)) {
    DELEGATE_LOG(Error,
                 "%s: input %s has shape %s, but the engine allows %s. Give a shape in this range, or export "
                 "with larger bounds.",
                 label.c_str(), in_quotes(binding.name).c_str(), abi::to_string(shape).c_str(),
                 range_text(binding).c_str());
    return Error::InvalidArgument;
  }
  return check_memory(binding, "input", tensor, label);
}

Error prepare_output(const Binding& binding, const abi::Dims& shape, Tensor& tensor,
                     const std::string& label) {
  const abi::Dims present = shape_of(tensor);
  const bool both_single = present.nb_dims <= 1 && shape.nb_dims <= 1 && tensor.numel() == 1 &&
                           (shape.nb_dims == 0 || shape.d[0] == 1);
  if (present != shape && !both_single) {
    std::array<executorch::aten::SizesType, abi::Dims::kMax> sizes{};
    std::transform(shape.d, shape.d + shape.nb_dims, sizes.begin(),
                   [](int64_t size) { return static_cast<executorch::aten::SizesType>(size); });
    const Error error = runtime::resize_tensor(tensor, {sizes.data(), static_cast<size_t>(shape.nb_dims)});
    if (error != Error::Ok) {
      DELEGATE_LOG(Error,
                   "%s: the engine's output %s has shape %s, but the program's tensor has shape %s and "
                   "cannot be resized. "
                   "Export the model with dynamic shapes whose bounds hold this size.",
                   label.c_str(), in_quotes(binding.name).c_str(), abi::to_string(shape).c_str(),
                   abi::to_string(present).c_str());
      return error;
    }
  }
  return check_memory(binding, "output", tensor, label);
}

}  // namespace executorch::backends::tensorrt
