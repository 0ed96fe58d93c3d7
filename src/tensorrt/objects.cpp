#include "tensorrt/objects.h"

#include <dlfcn.h>

#include <map>

#include "log/log.h"
#include "tensorrt/diagnostics.h"
#include "tensorrt/slots.h"

namespace executorch::backends::tensorrt {

namespace {

constexpr uintptr_t kLowestAddress = 64 * 1024;
constexpr int32_t kMostTensors = 4096;

bool is_address(const void* pointer) {
  const auto value = reinterpret_cast<uintptr_t>(pointer);
  return value >= kLowestAddress && value % alignof(void*) == 0;
}

bool is_code(const void* address, const Library* home) {
  Dl_info info{};
  return home != nullptr ? home->contains(address) : dladdr(address, &info) != 0;
}

Error refuse(const char* what, const char* found) {
  const std::string reason = take_reason();
  DELEGATE_LOG(Error, "TensorRT gave no usable %s: %s.%s%s", what, found,
               reason.empty() ? "" : " TensorRT says: ", reason.c_str());
  return Error::Internal;
}

}  // namespace

void Object::Destroy::operator()(abi::Outer* outer) const noexcept {
  reinterpret_cast<void (*)(abi::Outer*)>(outer->table[slots::kOuterDestroy])(outer);
}

Error Object::verify(void* outer, Span<const int> slots, const Library* home, const char* what,
                     bool knows_itself) {
  if (outer == nullptr) {
    return refuse(what, "it returned null");
  }
  if (!is_address(outer)) {
    return refuse(what, "it returned a number that is no address");
  }
  const auto* object = static_cast<const abi::Outer*>(outer);
  if (!is_address(object->table) || !is_address(object->implementation)) {
    return refuse(what, "the object does not have the expected layout");
  }
  void* const* table = *static_cast<void***>(object->implementation);
  if (!is_address(table) || !is_code(object->table[slots::kOuterDestroy], home)) {
    return refuse(what, "the object does not have the expected layout");
  }
  for (const int slot : slots) {
    if (!is_code(table[slot], home)) {
      return refuse(what, "a method that is needed is not where this version should have it");
    }
  }
  if (knows_itself && slots::kOuterOf(object->implementation) != outer) {
    return refuse(
        what, "the object does not know itself, so its methods are not where this version should have them");
  }
  return Error::Ok;
}

Result<HostMemory> HostMemory::adopt(void* outer) {
  ET_CHECK_OK_OR_RETURN_ERROR(verify(outer, slots::host_memory::kUsed, nullptr, "serialized bytes", false));
  return HostMemory(outer);
}

Span<const uint8_t> HostMemory::bytes() const {
  return {static_cast<const uint8_t*>(slots::host_memory::kData(implementation())),
          slots::host_memory::kSize(implementation())};
}

Result<RuntimeCache> RuntimeCache::adopt(void* outer) {
  ET_CHECK_OK_OR_RETURN_ERROR(verify(outer, slots::rtx::kUsedOfCache, nullptr, "runtime cache", false));
  return RuntimeCache(outer);
}

bool RuntimeCache::deserialize(Span<const uint8_t> bytes) {
  return slots::rtx::kDeserializeCache(implementation(), bytes.data(), bytes.size());
}
Result<HostMemory> RuntimeCache::serialize() const {
  return HostMemory::adopt(slots::rtx::kSerializeCache(implementation()));
}

Result<RuntimeConfig> RuntimeConfig::adopt(void* outer, const Library& library) {
  if (library.flavor() == LibraryFlavor::kRTX) {
    ET_CHECK_OK_OR_RETURN_ERROR(verify(outer, slots::rtx::kUsedOfConfig, nullptr, "runtime config"));
  } else {
    ET_CHECK_OK_OR_RETURN_ERROR(verify(outer, slots::runtime_config::kUsed, nullptr, "runtime config"));
  }
  return RuntimeConfig(outer);
}

void RuntimeConfig::set_allocation_strategy(abi::AllocationStrategy strategy) {
  slots::runtime_config::kSetAllocationStrategy(implementation(), strategy);
}
Result<RuntimeCache> RuntimeConfig::create_cache() {
  return RuntimeCache::adopt(slots::rtx::kCreateRuntimeCache(implementation()));
}
bool RuntimeConfig::set_cache(const RuntimeCache& cache) {
  return slots::rtx::kSetRuntimeCache(implementation(), cache.outer());
}

Result<Context> Context::adopt(void* outer) {
  ET_CHECK_OK_OR_RETURN_ERROR(verify(outer, slots::context::kUsed, nullptr, "execution context"));
  return Context(outer);
}

bool Context::set_input_shape(const char* tensor, const abi::Dims& shape) {
  return slots::context::kSetInputShape(implementation(), tensor, &shape);
}
abi::Dims Context::shape(const char* tensor) const {
  return slots::context::kShape(implementation(), tensor);
}
bool Context::set_tensor_address(const char* tensor, void* address) {
  return slots::context::kSetTensorAddress(implementation(), tensor, address);
}
int32_t Context::infer_shapes() { return slots::context::kInferShapes(implementation(), 0, nullptr); }
bool Context::enqueue(void* stream) { return slots::context::kEnqueue(implementation(), stream); }
void Context::set_auxiliary_streams(Span<void* const> streams) {
  slots::context::kSetAuxiliaryStreams(implementation(), streams.data(),
                                       static_cast<int32_t>(streams.size()));
}
void Context::set_device_memory(void* block, size_t size_bytes) {
  slots::context::kSetDeviceMemory(implementation(), block, static_cast<int64_t>(size_bytes));
}
bool Context::is_capturable(void* stream) {
  return slots::rtx::kIsStreamCapturable(implementation(), stream);
}

Result<Engine> Engine::adopt(void* outer) {
  ET_CHECK_OK_OR_RETURN_ERROR(verify(outer, slots::engine::kUsed, nullptr, "engine"));
  Engine engine(outer);
  const int32_t count = engine.tensor_count();
  if (count < 1 || count > kMostTensors) {
    return refuse("engine", "its number of I/O tensors is not believable");
  }
  for (int32_t i = 0; i < count; ++i) {
    const char* name = engine.tensor_name(i);
    if (name == nullptr) {
      return refuse("engine", "an I/O tensor has no name");
    }
    const abi::IOMode mode = engine.mode(name);
    const int32_t rank = engine.shape(name).nb_dims;
    if ((mode != abi::IOMode::kInput && mode != abi::IOMode::kOutput) || rank < 0 || rank > abi::Dims::kMax) {
      return refuse("engine", "an I/O tensor has neither direction nor rank");
    }
  }
  return engine;
}

int32_t Engine::tensor_count() const { return slots::engine::kTensorCount(implementation()); }
const char* Engine::tensor_name(int32_t index) const {
  return slots::engine::kTensorName(implementation(), index);
}
abi::IOMode Engine::mode(const char* tensor) const { return slots::engine::kMode(implementation(), tensor); }
abi::DataType Engine::data_type(const char* tensor) const {
  return slots::engine::kDataType(implementation(), tensor);
}
abi::Location Engine::location(const char* tensor) const {
  return slots::engine::kLocation(implementation(), tensor);
}
bool Engine::is_shape_inference_io(const char* tensor) const {
  return slots::engine::kIsShapeInferenceIO(implementation(), tensor);
}
abi::Dims Engine::shape(const char* tensor) const { return slots::engine::kShape(implementation(), tensor); }
abi::Dims Engine::profile_shape(const char* tensor, int32_t profile, abi::ProfileSelector selector) const {
  return slots::engine::kProfileShape(implementation(), tensor, profile, selector);
}
int32_t Engine::format(const char* tensor, int32_t profile) const {
  return slots::engine::kFormat(implementation(), tensor, profile);
}
int32_t Engine::profile_count() const { return slots::engine::kProfileCount(implementation()); }
int32_t Engine::layer_count() const { return slots::engine::kLayerCount(implementation()); }
int32_t Engine::auxiliary_stream_count() const {
  return slots::engine::kAuxiliaryStreamCount(implementation());
}
int64_t Engine::device_memory_size() const { return slots::engine::kDeviceMemorySize(implementation()); }
int64_t Engine::weights_size() const {
  return slots::engine::kStat(implementation(), abi::EngineStat::kTotalWeightsSize);
}
int64_t Engine::streamable_weights_size() const {
  return slots::engine::kStreamableWeightsSize(implementation());
}
bool Engine::set_weight_streaming_budget(int64_t size_bytes) {
  return slots::engine::kSetWeightStreamingBudget(implementation(), size_bytes);
}
int64_t Engine::weight_streaming_budget() const {
  return slots::engine::kWeightStreamingBudget(implementation());
}
int64_t Engine::weight_streaming_automatic_budget() const {
  return slots::engine::kWeightStreamingAutomaticBudget(implementation());
}
const char* Engine::aliased_input(const char* output) const {
  return slots::engine::kAliasedInput(implementation(), output);
}

Result<RuntimeConfig> Engine::create_runtime_config(const Library& library) {
  take_reason();
  return RuntimeConfig::adopt(slots::engine::kCreateRuntimeConfig(implementation()), library);
}

Result<Context> Engine::create_context(const RuntimeConfig& config) {
  take_reason();
  return Context::adopt(slots::engine::kCreateContextWithConfig(implementation(), config.outer()));
}

Result<std::unique_ptr<Runtime>> Runtime::create(const Library& library) {
  take_reason();
  void* outer = library.create_runtime();
  const Error error = verify(outer, slots::runtime::kUsed, &library, "runtime");
  if (error != Error::Ok ||
      slots::runtime::kLogger(static_cast<abi::Outer*>(outer)->implementation) != &logger()) {
    DELEGATE_LOG(Error,
                 "%s cannot be used. Install TensorRT again, or set TENSORRT_EXECUTORCH_LIBRARY to another "
                 "library file.",
                 library.description().c_str());
    return Error::DelegateInvalidCompatibility;
  }
  std::unique_ptr<Runtime> runtime(new Runtime(outer, library));
  // Engines and contexts inherit the recorder.
  slots::runtime::kSetErrorRecorder(runtime->implementation(), &error_recorder());
  DELEGATE_LOG(Info, "Using %s.", library.description().c_str());
  return runtime;
}

Result<Runtime*> Runtime::of(const Library& library) {
  // Never destroyed: engines may outlive every static object.
  static auto* const mutex = new std::mutex;
  static auto* const runtimes = new std::map<const Library*, std::unique_ptr<Runtime>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  auto& kept = (*runtimes)[&library];
  if (kept == nullptr) {
    auto created = create(library);
    ET_CHECK_OK_OR_RETURN_ERROR(created.error());
    kept = std::move(*created);
  }
  return kept.get();
}

Result<Engine> Runtime::deserialize(Span<const uint8_t> engine, std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  take_reason();
  void* outer = slots::runtime::kDeserialize(implementation(), engine.data(), engine.size());
  if (outer == nullptr) {
    reason = take_reason();
    return Error::InvalidProgram;
  }
  return Engine::adopt(outer);
}

}  // namespace executorch::backends::tensorrt
