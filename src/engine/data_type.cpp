#include "engine/data_type.h"

namespace executorch::backends::tensorrt {

std::optional<ScalarType> scalar_type_of(abi::DataType type) {
  switch (type) {
    case abi::DataType::kFloat:
      return ScalarType::Float;
    case abi::DataType::kHalf:
      return ScalarType::Half;
    case abi::DataType::kBF16:
      return ScalarType::BFloat16;
    case abi::DataType::kInt8:
      return ScalarType::Char;
    case abi::DataType::kUInt8:
      return ScalarType::Byte;
    case abi::DataType::kInt32:
      return ScalarType::Int;
    case abi::DataType::kInt64:
      return ScalarType::Long;
    case abi::DataType::kBool:
      return ScalarType::Bool;
    default:
      return std::nullopt;
  }
}

const char* name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::Half:
      return "float16";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Double:
      return "float64";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Bool:
      return "bool";
    default:
      return "a type that no engine has";
  }
}

const char* name_of(abi::DataType type) {
  constexpr const char* kNames[] = {"FLOAT", "HALF", "INT8",  "INT32", "BOOL", "UINT8",
                                    "FP8",   "BF16", "INT64", "INT4",  "FP4",  "E8M0"};
  const auto index = static_cast<size_t>(type);
  return index < sizeof(kNames) / sizeof(kNames[0]) ? kNames[index] : "an unknown type";
}

}  // namespace executorch::backends::tensorrt
