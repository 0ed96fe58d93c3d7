#include "objects.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "fake_cudart.h"
#include "library_facts.h"
#include "tables.h"

namespace fake_tensorrt {

namespace {

constexpr uintptr_t kAlignment = 256;
constexpr int32_t kInvalidArgument = 3;
constexpr int kRTXVersionsShareMinor = 100;
const char kCacheMagic[] = "fake runtime cache ";

std::string text_of(const abi::Dims& dims) {
  std::string text = "[";
  for (int32_t i = 0; i < dims.nb_dims; ++i) {
    text += (i > 0 ? "," : "") + std::to_string(dims.d[i]);
  }
  return text + "]";
}

std::string version_text(int32_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

std::string compute_capability() {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, current_device());
  return std::to_string(properties.major) + "." + std::to_string(properties.minor);
}

/// What a serialized cache begins with: it fits one version and one kind of GPU.
std::string cache_prefix() {
  return kCacheMagic + version_text(facts().version()) + " " + compute_capability() + "\n";
}

bool has_dynamic_size(const abi::Dims& dims) {
  return dims.nb_dims < 0 ||
         std::any_of(dims.d, dims.d + dims.nb_dims, [](int64_t size) { return size < 0; });
}

bool within(const abi::Dims& shape, const abi::Dims& min, const abi::Dims& max) {
  for (int32_t i = 0; i < shape.nb_dims; ++i) {
    if (shape.d[i] < min.d[i] || shape.d[i] > max.d[i]) {
      return false;
    }
  }
  return shape.nb_dims == min.nb_dims;
}

/// Why this library cannot use these bytes; empty when it can.
std::string refusal(const void* bytes, size_t size, const std::optional<EngineDescription>& engine) {
  const std::string expected = facts().is_rtx ? "vtrt" : "ftrt";
  if (magic_of(bytes, size) != expected) {
    return "Magic tag does not match: the plan begins with '" + magic_of(bytes, size) + "', expected '" +
           expected + "'";
  }
  if (!engine) {
    return "Serialization assertion failed: the plan is damaged";
  }
  if (facts().needs_version_compatible_engines && !engine->version_compatible) {
    return "Unexpected call to stub: the plan is not version compatible";
  }
  const bool same = engine->version / kRTXVersionsShareMinor == facts().version() / kRTXVersionsShareMinor;
  if (!same && !engine->version_compatible) {
    return "Version tag does not match: current version " + version_text(facts().version()) +
           ", serialized engine version " + version_text(engine->version);
  }
  const auto& supported = engine->compute_capabilities;
  if (!supported.empty() &&
      std::find(supported.begin(), supported.end(), compute_capability()) == supported.end()) {
    return "The engine does not support compute capability " + compute_capability();
  }
  return "";
}

/// One call of enqueue, as the stream will run it.
struct Launch {
  int device;
  std::vector<Operation> operations;
  std::map<std::string, Operand> tensors;  ///< with device addresses
  void* scratch;
  size_t scratch_bytes;
  std::shared_ptr<void> queued;  ///< counts as queued until the stream has dropped it; null for captured work
};

bool is_default_stream(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

/// Null for an ordinary stream.
void* green_context_of(cudaStream_t stream) {
  void* function = nullptr;
  void* context = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  cudaGetDriverEntryPointByVersion("cuStreamGetGreenCtx", &function, 12040, cudaEnableDefault, &result);
  reinterpret_cast<int (*)(cudaStream_t, void**)>(function)(stream, &context);
  return context;
}

/// Counts one piece of work in `queued` for as long as it or a copy of it lives.
std::shared_ptr<void> count_in(const std::shared_ptr<std::atomic<int>>& queued) {
  ++*queued;
  return {nullptr, [queued](void*) { --*queued; }};
}

bool reach_all(Launch& launch) {
  for (auto& [name, tensor] : launch.tensors) {
    const size_t bytes = static_cast<size_t>(volume(tensor.shape)) * size_of(tensor.dtype);
    tensor.data = bytes == 0 ? nullptr : fake_cuda_reach(tensor.data, bytes, launch.device);
    if (bytes > 0 && tensor.data == nullptr) {
      return false;
    }
  }
  return true;
}

void run_launch(void* argument) {
  Launch launch = *static_cast<const Launch*>(argument);  // a graph may run it again
  if (!reach_all(launch)) {
    return;
  }
  if (launch.scratch_bytes > 0) {
    void* scratch = fake_cuda_reach(launch.scratch, launch.scratch_bytes, launch.device);
    if (scratch == nullptr) {
      return;
    }
    std::memset(scratch, 0x5C, launch.scratch_bytes);
  }
  for (const Operation& operation : launch.operations) {
    std::vector<Operand> inputs;
    for (const std::string& name : operation.inputs) {
      inputs.push_back(launch.tensors.at(name));
    }
    compute(operation, inputs, launch.tensors.at(operation.output));
  }
}

}  // namespace

void report(Runtime& runtime, const std::string& sentence) {
  if (runtime.recorder != nullptr) {
    runtime.recorder->report(kInvalidArgument, sentence.c_str());
  } else {
    runtime.logger->log(abi::Severity::kError, sentence.c_str());
  }
}

bool injected(Runtime& runtime, const char* function) {
  if (fake_cuda_enter(function) == cudaSuccess) {
    return false;
  }
  report(runtime, std::string("injected failure of ") + function);
  return true;
}

HostMemory::HostMemory(std::string content)
    : Object(tables::host_memory_outer, tables::host_memory), bytes(std::move(content)) {}

RuntimeCache::RuntimeCache() : Object(tables::cache_outer, tables::cache), device_(current_device()) {
  fake_cuda_add_live("tensorrt_caches", 1);
}
RuntimeCache::~RuntimeCache() {
  if (device_ != current_device()) {
    fake_cuda_violate("a runtime cache is destroyed while another device than its own is current");
  }
  fake_cuda_add_live("tensorrt_caches", -1);
}

bool RuntimeCache::deserialize(const void* bytes, size_t size) {
  const std::string prefix = cache_prefix();
  const std::string text(static_cast<const char*>(bytes), size);
  if (text.compare(0, prefix.size(), prefix) != 0) {
    return false;
  }
  std::istringstream lines(text.substr(prefix.size()));
  for (std::string line; std::getline(lines, line);) {
    add(line);
  }
  return true;
}

HostMemory* RuntimeCache::serialize() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text = kernels_.empty() ? "" : cache_prefix();
  for (const std::string& kernels : kernels_) {
    text += kernels + "\n";
  }
  return new HostMemory(text);
}

void RuntimeCache::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  kernels_.clear();
}

bool RuntimeCache::add(const std::string& kernels) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kernels_.insert(kernels).second;
}

void compile(RuntimeCache* cache, const std::string& kernels) {
  if (cache == nullptr || cache->add(kernels)) {
    fake_cuda_add_live("tensorrt_compilations", 1);
  }
}

RuntimeConfig::RuntimeConfig() : Object(tables::config_outer, tables::config) {
  fake_cuda_add_live("tensorrt_configs", 1);
}
RuntimeConfig::~RuntimeConfig() { fake_cuda_add_live("tensorrt_configs", -1); }

Runtime::Runtime(abi::LoggerInterface* given)
    : Object(tables::runtime_outer, tables::runtime), logger(given) {
  fake_cuda_add_live("tensorrt_runtimes", 1);
}

Runtime::~Runtime() {
  if (engines > 0) {
    fake_cuda_violate("a TensorRT runtime is destroyed before its engines");
  }
  set_recorder(nullptr);
  fake_cuda_add_live("tensorrt_runtimes", -1);
}

void Runtime::set_recorder(abi::ErrorRecorderInterface* given) {
  if (recorder != nullptr) {
    recorder->drop_reference();
  }
  recorder = given;
  if (recorder != nullptr) {
    recorder->add_reference();
  }
}

Engine* Runtime::deserialize(const void* bytes, size_t size) {
  if (injected(*this, "tensorrt.deserialize")) {
    return nullptr;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    return nullptr;  // TensorRT-RTX gives no reason there
  }
  auto description = parse(bytes, size);
  if (const std::string why = refusal(bytes, size, description); !why.empty()) {
    report(*this, why);
    return nullptr;
  }
  auto engine = std::make_unique<Engine>(this, std::move(*description));
  if (engine->description.weight_bytes > 0 && engine->weights == nullptr) {
    report(*this, "Out of memory for the engine's weights");
    return nullptr;
  }
  return engine.release();
}

Engine::Engine(Runtime* owner, EngineDescription facts_of_engine)
    : Object(tables::engine_outer, tables::engine),
      runtime(owner),
      description(std::move(facts_of_engine)),
      budget(description.streamable_bytes) {
  cudaGetDevice(&device);
  if (description.weight_bytes > 0) {
    cudaMalloc(&weights, static_cast<size_t>(description.weight_bytes));
  }
  ++runtime->engines;
  fake_cuda_add_live("tensorrt_engines", 1);
}

Engine::~Engine() {
  if (contexts > 0) {
    fake_cuda_violate("a TensorRT engine is destroyed before its contexts");
  }
  cudaFree(weights);
  --runtime->engines;
  fake_cuda_add_live("tensorrt_engines", -1);
}

Context* Engine::create_context(abi::AllocationStrategy strategy, RuntimeCache* cache) {
  if (injected(*runtime, "tensorrt.create_context")) {
    return nullptr;
  }
  auto context = std::make_unique<Context>(this, strategy);
  if (strategy != abi::AllocationStrategy::kUserManaged && description.scratch_bytes > 0 &&
      context->scratch == nullptr) {
    report(*runtime, "Out of memory for the context's scratch");
    return nullptr;
  }
  if (facts().is_rtx) {
    context->cache = cache;
    compile(cache, "for every shape");
  }
  return context.release();
}

bool Engine::set_budget(int64_t bytes) {
  if (injected(*runtime, "tensorrt.set_weight_streaming_budget")) {
    return false;
  }
  if (contexts > 0 || bytes < 0 || description.streamable_bytes == 0) {
    report(*runtime, "The weight streaming budget cannot be set now");
    return false;
  }
  budget = std::min(bytes, description.streamable_bytes);
  return true;
}

Context::Context(Engine* owner, abi::AllocationStrategy wanted)
    : Object(tables::context_outer, tables::context), engine(owner), strategy(wanted) {
  if (strategy != abi::AllocationStrategy::kUserManaged && engine->description.scratch_bytes > 0 &&
      cudaMalloc(&scratch, static_cast<size_t>(engine->description.scratch_bytes)) == cudaSuccess) {
    scratch_bytes = engine->description.scratch_bytes;
  }
  for (const TensorDescription& tensor : engine->description.tensors) {
    if (tensor.is_input && !has_dynamic_size(tensor.shape)) {
      input_shapes[tensor.name] = tensor.shape;
    }
  }
  ++engine->contexts;
  fake_cuda_add_live("tensorrt_contexts", 1);
}

Context::~Context() {
  if (*queued > 0) {
    fake_cuda_violate("a TensorRT context is destroyed while its work is queued");
  }
  if (strategy != abi::AllocationStrategy::kUserManaged) {
    cudaFree(scratch);
  }
  for (cudaStream_t stream : own_streams) {
    if (stream != nullptr) {
      cudaStreamDestroy(stream);
    }
  }
  --engine->contexts;
  fake_cuda_add_live("tensorrt_contexts", -1);
}

bool Context::set_profile(int32_t index) {
  if (index < 0 || index >= engine->description.profile_count) {
    report(*engine->runtime, "There is no optimization profile " + std::to_string(index));
    return false;
  }
  profile = index;
  return true;
}

bool Context::set_input_shape(const char* name, const abi::Dims& shape) {
  if (injected(*engine->runtime, "tensorrt.set_input_shape")) {
    return false;
  }
  const TensorDescription* tensor = engine->description.find(name);
  if (tensor == nullptr || !tensor->is_input) {
    report(*engine->runtime, std::string("There is no input ") + name);
    return false;
  }
  Profile range{tensor->shape, tensor->shape, tensor->shape};
  if (static_cast<size_t>(profile) < tensor->profiles.size()) {
    range = tensor->profiles[static_cast<size_t>(profile)];
  }
  if (!within(shape, range.min, range.max)) {
    report(*engine->runtime, std::string("Set dimensions ") + text_of(shape) + " of " + name +
                                 " are outside of " + text_of(range.min) + " to " + text_of(range.max));
    return false;
  }
  input_shapes[name] = shape;
  return true;
}

abi::Dims Context::shape_of(const char* name) const {
  const TensorDescription* tensor = engine->description.find(name);
  if (tensor == nullptr) {
    return {-1, {}};
  }
  if (tensor->is_input) {
    const auto it = input_shapes.find(name);
    return it == input_shapes.end() ? tensor->shape : it->second;
  }
  for (const Operation& operation : engine->description.operations) {
    if (operation.output == name) {
      std::vector<abi::Dims> inputs;
      for (const std::string& input : operation.inputs) {
        inputs.push_back(shape_of(input.c_str()));
        if (has_dynamic_size(inputs.back())) {
          return tensor->shape;
        }
      }
      return infer_shape(operation, tensor->shape, inputs);
    }
  }
  return tensor->shape;
}

bool Context::set_address(const char* name, void* address) {
  if (injected(*engine->runtime, "tensorrt.set_tensor_address")) {
    return false;
  }
  if (engine->description.find(name) == nullptr) {
    report(*engine->runtime, std::string("There is no tensor ") + name);
    return false;
  }
  if (reinterpret_cast<uintptr_t>(address) % kAlignment != 0) {
    report(*engine->runtime, std::string("The address of ") + name + " is not aligned to 256 bytes");
    return false;
  }
  addresses[name] = address;
  return true;
}

int32_t Context::infer_shapes() const {
  if (injected(*engine->runtime, "tensorrt.infer_shapes")) {
    return -1;
  }
  int32_t missing = 0;
  for (const TensorDescription& tensor : engine->description.tensors) {
    missing += tensor.is_input && input_shapes.count(tensor.name) == 0 ? 1 : 0;
  }
  if (missing > 0) {
    return missing;
  }
  for (const TensorDescription& tensor : engine->description.tensors) {
    if (shape_of(tensor.name.c_str()).nb_dims < 0) {
      report(*engine->runtime, "The input shapes do not fit together for output " + tensor.name);
      return -1;
    }
  }
  return 0;
}

bool Context::ready() const {
  const int device = current_device();
  if (device != engine->device) {
    report(*engine->runtime, "The engine is of device " + std::to_string(engine->device) + ", but device " +
                                 std::to_string(device) + " is current");
    return false;
  }
  for (const TensorDescription& tensor : engine->description.tensors) {
    const auto address = addresses.find(tensor.name);
    if (address == addresses.end() || address->second == nullptr) {
      report(*engine->runtime, "No address is set for tensor " + tensor.name);
      return false;
    }
    const auto input = addresses.find(tensor.aliased_input);
    if (!tensor.aliased_input.empty() && (input == addresses.end() || input->second != address->second)) {
      report(*engine->runtime, "Output " + tensor.name + " must have the address of " + tensor.aliased_input);
      return false;
    }
  }
  if (scratch_bytes < engine->description.scratch_bytes) {
    report(*engine->runtime, "The device memory that was set is too small");
    return false;
  }
  return true;
}

// As TensorRT-RTX, which makes kernels for the sizes that it meets.
void Context::compile_for_shapes() {
  std::string shapes;
  for (const TensorDescription& tensor : engine->description.tensors) {
    if (tensor.is_input && has_dynamic_size(tensor.shape)) {
      shapes += tensor.name + text_of(shape_of(tensor.name.c_str()));
    }
  }
  if (facts().is_rtx && !shapes.empty()) {
    compile(cache, shapes);
  }
}

void Context::set_auxiliary_streams(const cudaStream_t* streams, int32_t count) {
  if (injected(*engine->runtime, "tensorrt.set_auxiliary_streams")) {
    return;
  }
  given_streams.assign(streams, streams + count);
  for (auto it = given_streams.begin(); it != given_streams.end(); ++it) {
    if (is_default_stream(*it) || std::count(given_streams.begin(), given_streams.end(), *it) > 1) {
      fake_cuda_violate("TensorRT was given an auxiliary stream twice, or a default stream");
    }
  }
}

// As TensorRT: each auxiliary stream starts after the caller's stream, which goes on after all of them.
cudaError_t Context::enqueue_beside(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  for (size_t i = 0; i < static_cast<size_t>(engine->description.auxiliary_streams); ++i) {
    if (i >= given_streams.size() && own_streams.size() <= i) {
      own_streams.resize(i + 1);
      cudaStreamCreateWithFlags(&own_streams[i], cudaStreamNonBlocking);
    }
    cudaStream_t beside = i < given_streams.size() ? given_streams[i] : own_streams[i];
    if (green_context_of(beside) != green_context_of(stream)) {
      fake_cuda_violate("a TensorRT engine leaves the green context of the caller's stream");
    }
    for (const auto& [from, to] : {std::pair(stream, beside), std::pair(beside, stream)}) {
      error = error != cudaSuccess ? error : cudaEventRecord(event, from);
      error = error != cudaSuccess ? error : cudaStreamWaitEvent(to, event, 0);
    }
  }
  cudaEventDestroy(event);
  return error;
}

bool Context::enqueue(cudaStream_t stream) {
  if (injected(*engine->runtime, "tensorrt.enqueue") || infer_shapes() != 0 || !ready()) {
    return false;
  }
  compile_for_shapes();
  auto launch = std::make_unique<Launch>();
  launch->device = engine->device;
  launch->operations = engine->description.operations;
  launch->scratch = scratch;
  launch->scratch_bytes = static_cast<size_t>(engine->description.scratch_bytes);
  for (const TensorDescription& tensor : engine->description.tensors) {
    launch->tensors[tensor.name] = {tensor.dtype, shape_of(tensor.name.c_str()), addresses.at(tensor.name)};
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaError_t error = cudaStreamIsCapturing(stream, &capture);
  if (error == cudaSuccess) {
    launch->queued = capture == cudaStreamCaptureStatusNone ? count_in(queued) : nullptr;
    error = engine->description.auxiliary_streams > 0 ? enqueue_beside(stream) : cudaSuccess;
  }
  if (error == cudaSuccess) {
    error = fake_cuda_enqueue(stream, run_launch, launch.release(),
                              [](void* argument) { delete static_cast<Launch*>(argument); });
  }
  if (error != cudaSuccess) {
    report(*engine->runtime, std::string("Cuda Runtime (") + cudaGetErrorString(error) + ") in enqueue");
  }
  return error == cudaSuccess;
}

}  // namespace fake_tensorrt
