// Prints what TensorRT answers through the delegate's slot table, as JSON, for each engine file on the
// command line.
//
//   TENSORRT_EXECUTORCH_LIBRARY=<libtensorrt_rtx.so.1> slot_probe ENGINE...
//
// test_slots.py asks the official Python bindings the same questions about the same engines.
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "blob/sha256.h"
#include "cuda/buffer.h"
#include "tensorrt/library_search.h"
#include "tensorrt/objects.h"

namespace tensorrt = executorch::backends::tensorrt;
namespace abi = tensorrt::abi;
using json = nlohmann::ordered_json;
using tensorrt::Context;
using tensorrt::DeviceBuffer;
using tensorrt::Engine;

namespace {

/// The byte that fills an input. int32 inputs are indices here, of which only 0 is always valid.
int fill_of(abi::DataType type) { return type == abi::DataType::kInt32 ? 0 : 1; }

template <typename T>
T take(executorch::runtime::Result<T> result, const char* what) {
  if (!result.ok()) throw std::runtime_error(std::string(what) + " failed; the log says why");
  return std::move(*result);
}

void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

json list(const abi::Dims& dims) {
  if (dims.nb_dims < 0) return nullptr;
  return std::vector<int64_t>(dims.d, dims.d + dims.nb_dims);
}

size_t element_size(abi::DataType type) {
  switch (type) {
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

size_t size_bytes(const abi::Dims& shape, abi::DataType type) {
  size_t bytes = element_size(type);
  for (int32_t i = 0; i < shape.nb_dims; ++i) bytes *= static_cast<size_t>(shape.d[i]);
  return bytes;
}

bool is_dynamic(const abi::Dims& shape) {
  return std::any_of(shape.d, shape.d + shape.nb_dims, [](int64_t size) { return size < 0; });
}

json describe_tensor(const Engine& engine, const char* name) {
  json tensor = {{"name", name},
                 {"mode", static_cast<int>(engine.mode(name))},
                 {"dtype", static_cast<int>(engine.data_type(name))},
                 {"location", static_cast<int>(engine.location(name))},
                 {"shape_inference_io", engine.is_shape_inference_io(name)},
                 {"shape", list(engine.shape(name))},
                 {"profiles", json::array()},
                 {"formats", json::array()},
                 {"aliased_input", nullptr}};
  for (int32_t profile = 0; profile < engine.profile_count(); ++profile) {
    tensor["formats"].push_back(engine.format(name, profile));
    if (engine.mode(name) != abi::IOMode::kInput || !is_dynamic(engine.shape(name))) continue;
    json range;
    for (const auto selector :
         {abi::ProfileSelector::kMin, abi::ProfileSelector::kOpt, abi::ProfileSelector::kMax}) {
      range.push_back(list(engine.profile_shape(name, profile, selector)));
    }
    tensor["profiles"].push_back(range);
  }
  if (engine.mode(name) == abi::IOMode::kOutput && engine.aliased_input(name) != nullptr) {
    tensor["aliased_input"] = engine.aliased_input(name);
  }
  return tensor;
}

/// What the engine says of itself. The weight streaming budget is set here because no context exists yet.
json describe_engine(Engine& engine) {
  json description = {{"layers", engine.layer_count()},
                      {"profiles", engine.profile_count()},
                      {"auxiliary_streams", engine.auxiliary_stream_count()},
                      {"weights_size", engine.weights_size()},
                      {"streamable_weights_size", engine.streamable_weights_size()},
                      {"budget", engine.weight_streaming_budget()},
                      {"device_memory_size", engine.device_memory_size()},
                      {"unknown_name_mode", static_cast<int>(engine.mode("there is no such tensor"))},
                      {"tensors", json::array()}};
  for (int32_t i = 0; i < engine.tensor_count(); ++i) {
    description["tensors"].push_back(describe_tensor(engine, engine.tensor_name(i)));
  }
  if (engine.streamable_weights_size() > 0) {
    description["automatic_budget_is_in_range"] =
        engine.weight_streaming_automatic_budget() >= 0 &&
        engine.weight_streaming_automatic_budget() <= engine.streamable_weights_size();
    description["half_budget_accepted"] =
        engine.set_weight_streaming_budget(engine.streamable_weights_size() / 2);
    description["half_budget"] = engine.weight_streaming_budget();
    description["device_memory_size_at_half_budget"] = engine.device_memory_size();
  }
  return description;
}

/// The shape to run an input at: its own when it is static, for which an engine may know no profile.
abi::Dims shape_at(const Engine& engine, const char* name, abi::ProfileSelector selector) {
  const abi::Dims shape = engine.shape(name);
  return is_dynamic(shape) ? engine.profile_shape(name, 0, selector) : shape;
}

/// Binds and runs the engine at the given selector's shapes of profile 0 and describes what came out.
json run(Engine& engine, Context& context, abi::ProfileSelector selector) {
  json result;
  std::vector<std::string> names;
  for (int32_t i = 0; i < engine.tensor_count(); ++i) names.emplace_back(engine.tensor_name(i));
  for (const std::string& name : names) {
    if (engine.mode(name.c_str()) != abi::IOMode::kInput) continue;
    result["shape_accepted"][name] =
        context.set_input_shape(name.c_str(), shape_at(engine, name.c_str(), selector));
  }
  result["infer_shapes"] = context.infer_shapes();
  std::vector<DeviceBuffer> buffers(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const char* name = names[i].c_str();
    const size_t bytes = size_bytes(context.shape(name), engine.data_type(name));
    result["shapes"][name] = list(context.shape(name));
    if (buffers[i].reserve(std::max<size_t>(bytes, 1)) != executorch::runtime::Error::Ok)
      throw std::runtime_error("no memory");
    require(cudaMemset(buffers[i].data(), fill_of(engine.data_type(name)), std::max<size_t>(bytes, 1)),
            "cudaMemset");
    size_t source = i;
    const bool is_output = engine.mode(name) == abi::IOMode::kOutput;
    if (const char* alias = is_output ? engine.aliased_input(name) : nullptr) {
      source = static_cast<size_t>(std::find(names.begin(), names.end(), alias) - names.begin());
    }
    result["address_accepted"][name] = context.set_tensor_address(name, buffers[source].data());
  }
  result["enqueued"] = context.enqueue(cudaStreamPerThread);
  require(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
  for (size_t i = 0; i < names.size(); ++i) {
    const char* name = names[i].c_str();
    // With dynamic shapes the library changes kernels in the background, and with them the last bits.
    if (engine.mode(name) != abi::IOMode::kOutput || is_dynamic(engine.shape(name)) ||
        engine.aliased_input(name) != nullptr) {
      continue;
    }
    std::vector<uint8_t> host(size_bytes(context.shape(name), engine.data_type(name)));
    require(cudaMemcpy(host.data(), buffers[i].data(), host.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    result["outputs"][name] = tensorrt::to_hex(tensorrt::sha256({host.data(), host.size()}));
  }
  return result;
}

/// A shape beyond the profile must be refused, and the shape set before must stay.
json refuse_beyond_profile(Engine& engine, Context& context) {
  for (int32_t i = 0; i < engine.tensor_count(); ++i) {
    const char* name = engine.tensor_name(i);
    if (engine.mode(name) != abi::IOMode::kInput) continue;
    abi::Dims shape = shape_at(engine, name, abi::ProfileSelector::kMax);
    if (shape.nb_dims < 1) continue;
    shape.d[0] += 1000;
    return {{"tensor", name},
            {"accepted", context.set_input_shape(name, shape)},
            {"shape", list(context.shape(name))}};
  }
  return nullptr;
}

/// A context that uses memory of ours as scratch, from a config with that strategy.
json run_on_own_scratch(Engine& engine, const tensorrt::Library& library) {
  auto config = take(engine.create_runtime_config(library), "create_runtime_config");
  config.set_allocation_strategy(abi::AllocationStrategy::kUserManaged);
  Context context = take(engine.create_context(config), "create_context");
  const auto size = static_cast<size_t>(engine.device_memory_size());
  DeviceBuffer scratch;
  if (scratch.reserve(std::max<size_t>(size, 1)) != executorch::runtime::Error::Ok) {
    throw std::runtime_error("no memory");
  }
  context.set_device_memory(scratch.data(), size);
  return run(engine, context, abi::ProfileSelector::kOpt);
}

/// Whether a filled cache of compiled kernels can be written out and read back, and nothing else is taken for
/// one.
json exchange_cache(const tensorrt::RuntimeCache& filled, tensorrt::RuntimeConfig& config) {
  auto empty = take(config.create_cache(), "create_cache");
  const std::vector<uint8_t> zeros(4096);
  json result = {{"takes_zeros", empty.deserialize({zeros.data(), zeros.size()})}};
  auto memory = take(filled.serialize(), "serialize");
  result["holds_something"] = memory.bytes().size() > 0;
  result["takes_its_own"] = empty.deserialize(memory.bytes());
  return result;
}

bool is_capturable(Context& context) {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const bool answer = context.is_capturable(stream);
  require(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return answer;
}

json probe(tensorrt::Runtime& runtime, const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
  std::string reason;
  auto made = runtime.deserialize({bytes.data(), bytes.size()}, reason);
  if (!made.ok()) throw std::runtime_error(std::string(path) + ": " + reason);
  Engine engine = std::move(*made);
  json result = {{"engine", describe_engine(engine)}};
  auto config = take(engine.create_runtime_config(runtime.library()), "create_runtime_config");
  auto cache = take(config.create_cache(), "create_cache");
  result["cache_accepted"] = config.set_cache(cache);
  Context context = take(engine.create_context(config), "create_context");
  for (const auto& [key, selector] : {std::pair{"min", abi::ProfileSelector::kMin},
                                      {"opt", abi::ProfileSelector::kOpt},
                                      {"max", abi::ProfileSelector::kMax}}) {
    result["runs"][key] = run(engine, context, selector);
  }
  result["runs"]["own_scratch"] = run_on_own_scratch(engine, runtime.library());
  result["cache"] = exchange_cache(cache, config);
  result["capturable"] = is_capturable(context);
  result["beyond_profile"] = refuse_beyond_profile(engine, context);
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  executorch::runtime::runtime_init();
  require(cudaFree(nullptr), "cudaFree");  // the driver must work before TensorRT makes a runtime
  const auto* library = take(tensorrt::find_library(tensorrt::Product::kTensorRTRTX), "find_library");
  auto* runtime = take(tensorrt::Runtime::of(*library), "Runtime::of");
  json report = {
      {"library", library->path()}, {"version", library->version().text()}, {"engines", json::array()}};
  for (int i = 1; i < argc; ++i) report["engines"].push_back(probe(*runtime, argv[i]));
  std::printf("%s\n", report.dump(1).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "slot_probe: %s\n", error.what());
  return 1;
}
