#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include <optional>
#include <string>

#include "tensorrt/abi.h"

namespace executorch::backends::tensorrt {

using ScalarType = executorch::aten::ScalarType;

/// The ExecuTorch type with the same bytes as an engine's type; nothing for types that ExecuTorch has no
/// tensor of.
std::optional<ScalarType> scalar_type_of(abi::DataType type);

/// PyTorch's name, such as "float32"; the blob's metadata uses the same.
const char* name_of(ScalarType type);

/// TensorRT's name of a type, such as "FP8", for messages.
const char* name_of(abi::DataType type);

}  // namespace executorch::backends::tensorrt
