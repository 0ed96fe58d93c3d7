#include "description.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

namespace fake_tensorrt {

namespace {

using Json = nlohmann::json;

constexpr size_t kMagicBytes = 4;
constexpr size_t kJsonOffset = 8;

const std::map<std::string, abi::DataType>& data_types() {
  static const std::map<std::string, abi::DataType> types = {
      {"float32", abi::DataType::kFloat},    {"float16", abi::DataType::kHalf},
      {"bfloat16", abi::DataType::kBF16},    {"int8", abi::DataType::kInt8},
      {"int32", abi::DataType::kInt32},      {"int64", abi::DataType::kInt64},
      {"uint8", abi::DataType::kUInt8},      {"bool", abi::DataType::kBool},
      {"float8_e4m3fn", abi::DataType::kFP8}};
  return types;
}

abi::Dims to_dims(const Json& sizes) {
  abi::Dims dims{static_cast<int32_t>(sizes.size()), {}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    dims.d[i] = sizes[i].get<int64_t>();
  }
  return dims;
}

TensorDescription to_tensor(const Json& json) {
  TensorDescription tensor;
  tensor.name = json.at("name").get<std::string>();
  tensor.is_input = json.at("mode") == "input";
  tensor.dtype = data_types().at(json.at("dtype").get<std::string>());
  tensor.shape = to_dims(json.at("shape"));
  tensor.on_host = json.value("on_host", false);
  tensor.shape_inference = json.value("shape_inference", false);
  tensor.format = json.value("format", 0);
  tensor.aliased_input = json.value("aliased_input", "");
  for (const Json& profile : json.value("profiles", Json::array())) {
    tensor.profiles.push_back(
        {to_dims(profile.at("min")), to_dims(profile.at("opt")), to_dims(profile.at("max"))});
  }
  return tensor;
}

Operation to_operation(const Json& json) {
  Operation operation;
  operation.output = json.at("output").get<std::string>();
  operation.op = json.at("op").get<std::string>();
  operation.inputs = json.value("inputs", std::vector<std::string>());
  operation.coefficients = json.value("coefficients", std::vector<double>());
  operation.constant = json.value("constant", 0.0);
  operation.dim = json.value("dim", 0);
  return operation;
}

EngineDescription to_engine(const Json& json) {
  EngineDescription engine;
  for (const Json& tensor : json.at("tensors")) {
    engine.tensors.push_back(to_tensor(tensor));
    engine.profile_count =
        std::max(engine.profile_count, static_cast<int32_t>(engine.tensors.back().profiles.size()));
  }
  for (const Json& operation : json.at("operations")) {
    engine.operations.push_back(to_operation(operation));
  }
  engine.compute_capabilities = json.value("compute_capabilities", std::vector<std::string>());
  engine.version_compatible = json.value("version_compatible", false);
  engine.layers = json.value("layers", 1);
  engine.auxiliary_streams = json.value("auxiliary_streams", 0);
  engine.scratch_bytes = json.value("scratch_bytes", int64_t{0});
  engine.weight_bytes = json.value("weight_bytes", int64_t{0});
  engine.streamable_bytes = json.value("streamable_bytes", int64_t{0});
  return engine;
}

}  // namespace

const TensorDescription* EngineDescription::find(const char* name) const {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [&](const TensorDescription& tensor) { return tensor.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

std::string magic_of(const void* bytes, size_t size) {
  return size < kMagicBytes ? "" : std::string(static_cast<const char*>(bytes), kMagicBytes);
}

std::optional<EngineDescription> parse(const void* bytes, size_t size) {
  if (size < kJsonOffset) {
    return std::nullopt;
  }
  const auto* text = static_cast<const char*>(bytes);
  try {
    EngineDescription engine = to_engine(Json::parse(text + kJsonOffset, text + size));
    std::memcpy(&engine.version, text + kMagicBytes, sizeof(engine.version));
    return engine;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

size_t size_of(abi::DataType dtype) {
  switch (dtype) {
    case abi::DataType::kInt64:
      return 8;
    case abi::DataType::kFloat:
    case abi::DataType::kInt32:
      return 4;
    case abi::DataType::kHalf:
    case abi::DataType::kBF16:
      return 2;
    default:
      return 1;
  }
}

int64_t volume(const abi::Dims& dims) {
  int64_t elements = 1;
  for (int32_t i = 0; i < dims.nb_dims; ++i) {
    elements *= dims.d[i];
  }
  return elements;
}

}  // namespace fake_tensorrt
