#include "executorch/direct_call_api.h"

#include <executorch/runtime/core/evalue.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "executorch/backend.h"
#include "executorch/contain.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

using executorch::aten::TensorImpl;
using runtime::Error;
using runtime::EValue;
using runtime::Result;

/// A tensor of ExecuTorch with what it points at.
class DirectTensor {
 public:
  explicit DirectTensor(const tensorrt_executorch_direct_tensor& given)
      : sizes_(given.sizes, given.sizes + given.dimensions),
        strides_(given.dimensions),
        order_(given.dimensions) {
    TensorImpl::StridesType stride = 1;
    for (size_t i = sizes_.size(); i-- > 0;) {
      strides_[i] = stride;
      stride *= std::max<TensorImpl::SizesType>(sizes_[i], 1);
      order_[i] = static_cast<TensorImpl::DimOrderType>(i);
    }
    description_ = std::make_unique<TensorImpl>(static_cast<executorch::aten::ScalarType>(given.scalar_type),
                                                static_cast<ssize_t>(sizes_.size()), sizes_.data(),
                                                given.data, order_.data(), strides_.data());
  }

  void move(void* data) { description_->set_data(data); }
  EValue value() const { return EValue(executorch::aten::Tensor(description_.get())); }

 private:
  std::vector<TensorImpl::SizesType> sizes_;
  std::vector<TensorImpl::StridesType> strides_;
  std::vector<TensorImpl::DimOrderType> order_;
  std::unique_ptr<TensorImpl> description_;
};

Error check(void* handle, const tensorrt_executorch_direct_tensor* tensors, size_t count) {
  const auto too_large = [](const tensorrt_executorch_direct_tensor& tensor) {
    return std::any_of(tensor.sizes, tensor.sizes + tensor.dimensions, [](int64_t size) {
      return size < 0 || size > std::numeric_limits<TensorImpl::SizesType>::max();
    });
  };
  if (handle == nullptr || std::any_of(tensors, tensors + count, too_large)) {
    DELEGATE_LOG(Error,
                 "A direct call needs a loaded delegate and tensors whose sizes have 31 bits. Call the "
                 "method through ExecuTorch.");
    return Error::InvalidArgument;
  }
  return Error::Ok;
}

}  // namespace

}  // namespace executorch::backends::tensorrt

struct tensorrt_executorch_direct_call {
  void* handle;
  std::vector<executorch::backends::tensorrt::DirectTensor> tensors;
  std::vector<executorch::runtime::EValue> values;
  std::vector<executorch::runtime::EValue*> arguments;
};

using namespace executorch::backends::tensorrt;

extern "C" {

int tensorrt_executorch_direct_create(void* handle, const tensorrt_executorch_direct_tensor* tensors,
                                      size_t count, tensorrt_executorch_direct_call** call) {
  *call = nullptr;
  return static_cast<int>(contain("Preparing a direct call", [&] {
    ET_CHECK_OK_OR_RETURN_ERROR(check(handle, tensors, count));
    auto made = std::make_unique<tensorrt_executorch_direct_call>();
    made->handle = handle;
    for (size_t i = 0; i < count; ++i) {
      made->tensors.emplace_back(tensors[i]);
    }
    for (const DirectTensor& tensor : made->tensors) {
      made->values.push_back(tensor.value());
    }
    for (EValue& value : made->values) {
      made->arguments.push_back(&value);
    }
    *call = made.release();
    return Error::Ok;
  }));
}

void tensorrt_executorch_direct_destroy(tensorrt_executorch_direct_call* call) { delete call; }

void tensorrt_executorch_direct_move(tensorrt_executorch_direct_call* call, size_t index, void* data) {
  call->tensors[index].move(data);
}

int tensorrt_executorch_direct_run(tensorrt_executorch_direct_call* call) {
  executorch::runtime::BackendExecutionContext context;
  const Error error =
      TensorRTBackend().execute(context, call->handle, {call->arguments.data(), call->arguments.size()});
  return static_cast<int>(error);
}

}  // extern "C"
