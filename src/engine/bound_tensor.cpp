#include "engine/bound_tensor.h"

#include <algorithm>

#include "cuda/allocation_id.h"

namespace executorch::backends::tensorrt {

bool BoundTensor::remember(const Tensor* tensor) {
  data_ = nullptr;
  if (tensor == nullptr) {
    return true;
  }
  const auto sizes = tensor->sizes();
  const auto strides = tensor->strides();
  if (tensor->numel() == 0 || sizes.size() > sizes_.size()) {
    return false;
  }
  allocation_ = allocation_id(tensor->const_data_ptr());
  if (allocation_ == 0) {
    return false;
  }
  data_ = tensor->const_data_ptr();
  type_ = tensor->scalar_type();
  dimensions_ = sizes.size();
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  std::copy(strides.begin(), strides.end(), strides_.begin());
  return true;
}

bool BoundTensor::is(const Tensor* tensor) const {
  if (tensor == nullptr || data_ == nullptr) {
    return tensor == nullptr && data_ == nullptr;
  }
  const auto sizes = tensor->sizes();
  const auto strides = tensor->strides();
  return tensor->const_data_ptr() == data_ && tensor->scalar_type() == type_ && sizes.size() == dimensions_ &&
         std::equal(sizes.begin(), sizes.end(), sizes_.begin()) &&
         std::equal(strides.begin(), strides.end(), strides_.begin()) && allocation_id(data_) == allocation_;
}

}  // namespace executorch::backends::tensorrt
