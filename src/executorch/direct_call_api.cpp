#include "executorch/direct_call_api.h"

#include <executorch/extension/tensor/tensor_ptr.h>
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

using executorch::aten::SizesType;
using executorch::extension::TensorPtr;
using runtime::Error;
using runtime::EValue;

TensorPtr tensor_of(const tensorrt_executorch_direct_tensor& given) {
  return executorch::extension::make_tensor_ptr({given.sizes, given.sizes + given.dimensions}, given.data,
                                                static_cast<executorch::aten::ScalarType>(given.scalar_type),
                                                executorch::aten::Device(executorch::aten::DeviceType::CPU),
                                                executorch::aten::TensorShapeDynamism::STATIC);
}

Error check(void* handle, const tensorrt_executorch_direct_tensor* tensors, size_t count) {
  const auto too_large = [](const tensorrt_executorch_direct_tensor& tensor) {
    return std::any_of(tensor.sizes, tensor.sizes + tensor.dimensions,
                       [](int64_t size) { return size < 0 || size > std::numeric_limits<SizesType>::max(); });
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
  std::vector<executorch::extension::TensorPtr> tensors;
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
      made->tensors.push_back(tensor_of(tensors[i]));
      made->values.emplace_back(made->tensors.back());
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
  call->tensors[index]->unsafeGetTensorImpl()->set_data(data);
}

int tensorrt_executorch_direct_run(tensorrt_executorch_direct_call* call) {
  executorch::runtime::BackendExecutionContext context;
  const Error error =
      TensorRTBackend().execute(context, call->handle, {call->arguments.data(), call->arguments.size()});
  return static_cast<int>(error);
}

}  // extern "C"
