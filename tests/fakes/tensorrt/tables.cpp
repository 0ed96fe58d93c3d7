#include "tables.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "fake_cudart.h"
#include "library_facts.h"
#include "objects.h"

namespace fake_tensorrt::tables {

namespace {

// Longer than any real table, so that a method of a newer version is reported by number, too.
constexpr size_t kSlots = 64;
using Table = std::array<void*, kSlots>;

template <class Self>
struct Name;
template <>
struct Name<Runtime> {
  static constexpr const char* kText = "runtime";
};
template <>
struct Name<Engine> {
  static constexpr const char* kText = "engine";
};
template <>
struct Name<Context> {
  static constexpr const char* kText = "execution context";
};
template <>
struct Name<RuntimeConfig> {
  static constexpr const char* kText = "runtime config";
};
template <>
struct Name<RuntimeCache> {
  static constexpr const char* kText = "runtime cache";
};
template <>
struct Name<HostMemory> {
  static constexpr const char* kText = "host memory";
};

template <class Self, size_t kSlot>
[[noreturn]] void unimplemented() {
  std::fprintf(stderr, "fake TensorRT: slot %zu of a %s is not implemented\n", kSlot, Name<Self>::kText);
  std::abort();
}

/// The headers promise nothing for two threads in one object, so callers need a lock.
template <class Self>
class Inside {
 public:
  explicit Inside(Self& self) : self_(self) {
    if (self_.threads_inside++ > 0) {
      fake_cuda_violate((std::string("two threads are inside one TensorRT ") + Name<Self>::kText).c_str());
    }
  }
  ~Inside() { --self_.threads_inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Self& self_;
};

/// The function that stands in a slot: finds the object behind the implementation pointer and calls
/// `kMethod`.
template <auto kMethod>
struct Entry;
template <class Return, class Self, class... Arguments, Return (*kMethod)(Self&, Arguments...)>
struct Entry<kMethod> {
  using Type = Self;
  static Return call(void* implementation, Arguments... arguments) {
    Self& self = *static_cast<typename Object<Self>::Implementation*>(implementation)->self;
    const Inside<Self> inside(self);
    return kMethod(self, arguments...);
  }
};

template <class Self, size_t... kSlot>
Table empty_table(std::index_sequence<kSlot...>) {
  return {reinterpret_cast<void*>(&unimplemented<Self, kSlot>)...};
}

template <class Self>
class TableBuilder {
 public:
  TableBuilder() : table_(empty_table<Self>(std::make_index_sequence<kSlots>())) {}

  template <auto kMethod>
  TableBuilder& at(size_t slot) {
    static_assert(std::is_same_v<typename Entry<kMethod>::Type, Self>);
    table_[slot] = reinterpret_cast<void*>(&Entry<kMethod>::call);
    return *this;
  }

  /// Lives as long as the process.
  void* const* build() const { return (new Table(table_))->data(); }

 private:
  Table table_;
};

// ---- common ----

template <class Self>
void* outer_of(Self& self) {
  return &self;
}

template <class Self>
void destroy(void* outer) {
  delete static_cast<Self*>(outer);
}

template <class Self>
void complete_destructor(void*) {
  std::fprintf(stderr, "fake TensorRT: a %s is destroyed without being freed (outer slot 0)\n",
               Name<Self>::kText);
  std::abort();
}

// ---- runtime ----

void* runtime_deserialize(Runtime& self, const void* bytes, size_t size) {
  return self.deserialize(bytes, size);
}
void runtime_set_recorder(Runtime& self, abi::ErrorRecorderInterface* recorder) {
  self.set_recorder(recorder);
}
abi::ErrorRecorderInterface* runtime_recorder(Runtime& self) { return self.recorder; }
// In a library whose slots moved, another getter stands here.
abi::LoggerInterface* runtime_logger(Runtime& self) { return facts().moved_slots ? nullptr : self.logger; }
bool runtime_set_max_threads(Runtime&, int32_t count) { return count >= 1; }
int32_t runtime_max_threads(Runtime&) { return 1; }
void runtime_allow_host_code(Runtime&, bool) {}
bool runtime_host_code_allowed(Runtime&) { return false; }
int64_t runtime_header_size(Runtime&) { return 64; }
// As measured on TensorRT-RTX 1.6: INVALID without a diagnostic, also for engines that run.
int32_t runtime_engine_validity(Runtime&, const void*, int64_t, uint64_t* diagnostics) {
  if (diagnostics != nullptr) {
    *diagnostics = 0;
  }
  return 2;
}

// ---- engine ----

// The real library answers FLOAT, DEVICE and LINEAR for names that it does not have.
const TensorDescription& tensor_or_default(Engine& self, const char* name) {
  static const TensorDescription unknown{"", false, abi::DataType::kFloat, {-1, {}}, {}, false, false, 0, ""};
  const TensorDescription* tensor = self.description.find(name);
  return tensor == nullptr ? unknown : *tensor;
}

int32_t engine_layers(Engine& self) { return self.description.layers; }
void* engine_create_context(Engine& self, abi::AllocationStrategy strategy) {
  return self.create_context(strategy);
}
int32_t engine_profiles(Engine& self) { return self.description.profile_count; }
abi::Dims engine_shape(Engine& self, const char* name) { return tensor_or_default(self, name).shape; }
abi::DataType engine_data_type(Engine& self, const char* name) { return tensor_or_default(self, name).dtype; }
abi::Location engine_location(Engine& self, const char* name) {
  return tensor_or_default(self, name).on_host ? abi::Location::kHost : abi::Location::kDevice;
}
bool engine_shape_inference(Engine& self, const char* name) {
  return tensor_or_default(self, name).shape_inference;
}
abi::IOMode engine_mode(Engine& self, const char* name) {
  const TensorDescription* tensor = self.description.find(name);
  return tensor == nullptr  ? abi::IOMode::kNone
         : tensor->is_input ? abi::IOMode::kInput
                            : abi::IOMode::kOutput;
}
abi::Dims engine_profile_shape(Engine& self, const char* name, int32_t profile,
                               abi::ProfileSelector selector) {
  const TensorDescription& tensor = tensor_or_default(self, name);
  if (!tensor.is_input || profile < 0 || profile >= self.description.profile_count) {
    return {-1, {}};
  }
  if (static_cast<size_t>(profile) >= tensor.profiles.size()) {
    return tensor.shape;
  }
  const Profile& range = tensor.profiles[static_cast<size_t>(profile)];
  return selector == abi::ProfileSelector::kMin   ? range.min
         : selector == abi::ProfileSelector::kOpt ? range.opt
                                                  : range.max;
}
int32_t engine_tensors(Engine& self) { return static_cast<int32_t>(self.description.tensors.size()); }
const char* engine_tensor_name(Engine& self, int32_t index) {
  const auto& tensors = self.description.tensors;
  return index >= 0 && static_cast<size_t>(index) < tensors.size()
             ? tensors[static_cast<size_t>(index)].name.c_str()
             : nullptr;
}
int32_t engine_hardware_compatibility(Engine&) { return 0; }
int32_t engine_auxiliary_streams(Engine& self) { return self.description.auxiliary_streams; }
int32_t engine_format(Engine& self, const char* name, int32_t) {
  return tensor_or_default(self, name).format;
}
int64_t engine_streamable(Engine& self) { return self.description.streamable_bytes; }
bool engine_set_budget(Engine& self, int64_t bytes) { return self.set_budget(bytes); }
int64_t engine_budget(Engine& self) { return self.budget; }
int64_t engine_automatic_budget(Engine& self) { return self.description.streamable_bytes / 2; }
int64_t engine_streaming_scratch(Engine&) { return 0; }
int64_t engine_device_memory(Engine& self) { return self.description.scratch_bytes; }
int64_t engine_device_memory_of_profile(Engine& self, int32_t) { return self.description.scratch_bytes; }
void* engine_create_context_with_config(Engine& self, void* config) {
  const auto* wanted = static_cast<const RuntimeConfig*>(config);
  return self.create_context(wanted->strategy, wanted->cache);
}
void* engine_create_config(Engine&) { return new RuntimeConfig; }
int64_t engine_stat(Engine& self, int32_t stat) { return stat == 0 ? self.description.weight_bytes : -1; }
const char* engine_aliased_input(Engine& self, const char* output) {
  const std::string& input = tensor_or_default(self, output).aliased_input;
  return input.empty() ? nullptr : input.c_str();
}

// ---- context ----

void* context_engine(Context& self) { return self.engine; }
int32_t context_profile(Context& self) { return self.profile; }
bool context_set_profile(Context& self, int32_t index, cudaStream_t) { return self.set_profile(index); }
bool context_set_input_shape(Context& self, const char* name, const abi::Dims* shape) {
  return self.set_input_shape(name, *shape);
}
abi::Dims context_shape(Context& self, const char* name) { return self.shape_of(name); }
bool context_set_address(Context& self, const char* name, void* address) {
  return self.set_address(name, address);
}
const void* context_address(Context& self, const char* name) {
  const auto it = self.addresses.find(name);
  return it == self.addresses.end() ? nullptr : it->second;
}
int32_t context_infer_shapes(Context& self, int32_t, const char**) { return self.infer_shapes(); }
int64_t context_max_output_size(Context& self, const char* name) {
  const abi::Dims shape = self.shape_of(name);
  return volume(shape) < 0
             ? -1
             : volume(shape) * static_cast<int64_t>(size_of(self.engine->description.find(name)->dtype));
}
bool context_enqueue(Context& self, cudaStream_t stream) { return self.enqueue(stream); }
void context_set_auxiliary_streams(Context& self, const cudaStream_t* streams, int32_t count) {
  self.set_auxiliary_streams(streams, count);
}
size_t context_memory_for_shapes(Context& self) {
  return static_cast<size_t>(self.engine->description.scratch_bytes);
}
void context_set_memory(Context& self, void* memory, int64_t bytes) {
  if (self.strategy != abi::AllocationStrategy::kUserManaged) {
    report(*self.engine->runtime, "The context manages its own memory");
    return;
  }
  self.scratch = memory;
  self.scratch_bytes = bytes;
}
bool context_capturable(Context&, cudaStream_t) { return true; }

// ---- config, cache, host memory ----

void config_set_strategy(RuntimeConfig& self, abi::AllocationStrategy strategy) { self.strategy = strategy; }
abi::AllocationStrategy config_strategy(RuntimeConfig& self) { return self.strategy; }
void* config_create_cache(RuntimeConfig&) {
  return fake_cuda_enter("tensorrt.create_cache") == cudaSuccess ? new RuntimeCache : nullptr;
}
bool config_set_cache(RuntimeConfig& self, void* cache) {
  self.cache = static_cast<RuntimeCache*>(cache);
  return true;
}
void* config_cache(RuntimeConfig& self) { return self.cache; }
void config_set_specialization(RuntimeConfig& self, int32_t strategy) { self.specialization = strategy; }
int32_t config_specialization(RuntimeConfig& self) { return self.specialization; }
bool config_set_graphs(RuntimeConfig& self, int32_t strategy) {
  self.graph_strategy = strategy;
  return true;
}
int32_t config_graphs(RuntimeConfig& self) { return self.graph_strategy; }

void* cache_serialize(RuntimeCache& self) { return self.serialize(); }
bool cache_deserialize(RuntimeCache& self, const void* bytes, size_t size) {
  return self.deserialize(bytes, size);
}
bool cache_reset(RuntimeCache& self) {
  self.reset();
  return true;
}

void* host_memory_data(HostMemory& self) { return self.bytes.data(); }
size_t host_memory_size(HostMemory& self) { return self.bytes.size(); }
int32_t host_memory_type(HostMemory&) { return 0; }

// ---- the tables; numbers as in TensorRT's headers, those of one family where `is_rtx` says so ----

void* const* make_runtime() {
  TableBuilder<Runtime> table;
  table.at<outer_of<Runtime>>(2)
      .at<runtime_deserialize>(3)
      .at<runtime_set_recorder>(8)
      .at<runtime_recorder>(9)
      .at<runtime_logger>(10)
      .at<runtime_set_max_threads>(11)
      .at<runtime_max_threads>(12)
      .at<runtime_allow_host_code>(20)
      .at<runtime_host_code_allowed>(21);
  if (facts().is_rtx) {
    table.at<runtime_header_size>(23).at<runtime_engine_validity>(24);
  }
  return table.build();
}

void* const* make_engine() {
  TableBuilder<Engine> table;
  return table.at<outer_of<Engine>>(2)
      .at<engine_layers>(3)
      .at<engine_create_context>(5)
      .at<engine_profiles>(8)
      .at<engine_shape>(15)
      .at<engine_data_type>(16)
      .at<engine_location>(17)
      .at<engine_shape_inference>(18)
      .at<engine_mode>(19)
      .at<engine_profile_shape>(25)
      .at<engine_tensors>(26)
      .at<engine_tensor_name>(27)
      .at<engine_hardware_compatibility>(28)
      .at<engine_auxiliary_streams>(29)
      .at<engine_format>(32)
      .at<engine_streamable>(38)
      .at<engine_set_budget>(40)
      .at<engine_budget>(41)
      .at<engine_automatic_budget>(42)
      .at<engine_streaming_scratch>(43)
      .at<engine_device_memory>(44)
      .at<engine_device_memory_of_profile>(45)
      .at<engine_create_context_with_config>(47)
      .at<engine_create_config>(48)
      .at<engine_stat>(49)
      .at<engine_aliased_input>(50)
      .build();
}

void* const* make_context() {
  TableBuilder<Context> table;
  table.at<outer_of<Context>>(2)
      .at<context_engine>(7)
      .at<context_profile>(11)
      .at<context_set_profile>(16)
      .at<context_set_input_shape>(20)
      .at<context_shape>(21)
      .at<context_set_address>(23)
      .at<context_address>(24)
      .at<context_infer_shapes>(27)
      .at<context_max_output_size>(33)
      .at<context_enqueue>(36)
      .at<context_set_auxiliary_streams>(41)
      .at<context_memory_for_shapes>(47)
      .at<context_set_memory>(48);
  if (facts().is_rtx) {
    table.at<context_capturable>(52);
  }
  return table.build();
}

void* const* make_config() {
  TableBuilder<RuntimeConfig> table;
  table.at<outer_of<RuntimeConfig>>(2).at<config_set_strategy>(3).at<config_strategy>(4);
  if (facts().is_rtx) {
    table.at<config_create_cache>(5)
        .at<config_set_cache>(6)
        .at<config_cache>(7)
        .at<config_set_specialization>(8)
        .at<config_specialization>(9)
        .at<config_set_graphs>(10)
        .at<config_graphs>(11);
  }
  return table.build();
}

void* const* make_cache() {
  TableBuilder<RuntimeCache> table;
  return table.at<cache_serialize>(2).at<cache_deserialize>(3).at<cache_reset>(4).build();
}

void* const* make_host_memory() {
  TableBuilder<HostMemory> table;
  return table.at<host_memory_data>(2).at<host_memory_size>(3).at<host_memory_type>(4).build();
}

}  // namespace

#define OUTER(name, Type)                                                             \
  void* const name##_outer[2] = {reinterpret_cast<void*>(&complete_destructor<Type>), \
                                 reinterpret_cast<void*>(&destroy<Type>)};            \
  void* const* const name = make_##name()

OUTER(runtime, Runtime);
OUTER(engine, Engine);
OUTER(context, Context);
OUTER(config, RuntimeConfig);
OUTER(cache, RuntimeCache);
OUTER(host_memory, HostMemory);

}  // namespace fake_tensorrt::tables
