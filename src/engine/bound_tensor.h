#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include <array>
#include <cstdint>

#include "tensorrt/abi.h"

namespace executorch::backends::tensorrt {

using executorch::aten::Tensor;

/// What one call found in order, for the next call to recognise: a tensor by its type, shape, layout and
/// memory, whoever describes it. It holds no reference to the tensor.
class BoundTensor {
 public:
  /// Remembers a tensor of CUDA memory; null for one that is left out. False when the next call must look
  /// again: it is empty, or nobody tells which allocation its memory is.
  bool remember(const Tensor* tensor);

  bool is(const Tensor* tensor) const;

 private:
  using Extents = std::array<executorch::aten::SizesType, abi::Dims::kMax>;

  const void* data_ = nullptr;  ///< null for a tensor that is left out
  uint64_t allocation_ = 0;
  executorch::aten::ScalarType type_ = executorch::aten::ScalarType::Undefined;
  size_t dimensions_ = 0;
  Extents sizes_{};
  Extents strides_{};
};

}  // namespace executorch::backends::tensorrt
