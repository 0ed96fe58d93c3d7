#include "engine/shared_engine.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "blob/engine_digest.h"
#include "cuda/device_info.h"
#include "engine/engine_opening.h"
#include "engine/kernel_bytes.h"
#include "engine/populate_heap.h"
#include "engine/runtime_cache_pool.h"
#include "log/log.h"
#include "tensorrt/diagnostics.h"

namespace executorch::backends::tensorrt {

namespace {

/// The engines that are in use. Never destroyed, as programs may be freed while the process ends.
struct Registry {
  std::mutex mutex;
  std::map<SharedEngine::Key, std::weak_ptr<SharedEngine>> engines;

  static Registry& instance() {
    static auto* const registry = new Registry;
    return *registry;
  }

  std::shared_ptr<SharedEngine> find(const SharedEngine::Key& key) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = engines.find(key);
    return found == engines.end() ? nullptr : found->second.lock();
  }

  /// Two threads may have loaded the same engine at once: the first one stays.
  std::shared_ptr<SharedEngine> add(const SharedEngine::Key& key, std::shared_ptr<SharedEngine> engine) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto it = engines.begin(); it != engines.end();) {
      it = it->second.expired() ? engines.erase(it) : std::next(it);
    }
    auto& kept = engines[key];
    if (auto other = kept.lock()) {
      return other;
    }
    kept = engine;
    return engine;
  }
};

std::string words_of_tensorrt() {
  const std::string reason = take_reason();
  return reason.empty() ? "nothing" : reason;
}

bool has_dynamic_shapes(const Engine& engine) {
  for (int32_t i = 0; i < engine.tensor_count(); ++i) {
    const abi::Dims shape = engine.shape(engine.tensor_name(i));
    if (std::any_of(shape.d, shape.d + std::max(shape.nb_dims, 0), [](int64_t size) { return size < 0; })) {
      return true;
    }
  }
  return false;
}

/// Of the kernels that it reads back, TensorRT-RTX makes objects of some twenty times their size.
constexpr size_t kHeapPerKernelByte = 20;

}  // namespace

std::string engine_digest(const Blob& blob) {
  const std::string& recorded = blob.metadata.engine_sha256;  // parse_blob has verified it
  return recorded.empty() ? to_hex(digest_of_engine(blob.engine)) : recorded;
}

bool SharedEngine::Key::operator<(const Key& other) const {
  return std::tie(digest, device, weight_streaming_budget) <
         std::tie(other.digest, other.device, other.weight_streaming_budget);
}

Result<std::shared_ptr<SharedEngine>> SharedEngine::get(const Key& key, const Blob& blob,
                                                        const std::string& label) {
  if (key.is_private) {
    return load(key, blob, label);
  }
  auto& registry = Registry::instance();
  if (auto engine = registry.find(key)) {
    return engine;
  }
  auto loaded = load(key, blob, label);
  ET_CHECK_OK_OR_RETURN_ERROR(loaded.error());
  return registry.add(key, std::move(*loaded));
}

Result<std::shared_ptr<SharedEngine>> SharedEngine::load(const Key& key, const Blob& blob,
                                                         const std::string& label) {
  auto opened = open_engine(blob, key.device, label);
  ET_CHECK_OK_OR_RETURN_ERROR(opened.error());
  ET_CHECK_OK_OR_RETURN_ERROR(
      set_weight_streaming_budget(opened->engine, key.weight_streaming_budget, label));
  const Library& library = opened->runtime.library();
  std::optional<KernelKey> kernel_key;
  if (library.flavor() == LibraryFlavor::kRTX) {
    auto gpu = device_info(key.device);
    ET_CHECK_OK_OR_RETURN_ERROR(gpu.error());
    kernel_key = KernelKey{key.digest, library.version().text(), gpu->name};
  }
  return std::shared_ptr<SharedEngine>(new SharedEngine(
      opened->runtime, std::move(opened->engine), blob.engine.size(), key.device, std::move(kernel_key)));
}

SharedEngine::SharedEngine(Runtime& runtime, Engine engine, size_t engine_bytes, int device,
                           std::optional<KernelKey> kernel_key)
    : runtime_(runtime),
      device_(device),
      engine_(std::move(engine)),
      scratch_bytes_(static_cast<uint64_t>(std::max<int64_t>(engine_.device_memory_size(), 0))),
      weights_bytes_(engine_.weights_size() > 0 ? static_cast<uint64_t>(engine_.weights_size())
                                                : engine_bytes),
      auxiliary_streams_(engine_.auxiliary_stream_count()),
      kernel_key_(std::move(kernel_key)) {
  if (kernel_key_.has_value()) {
    kernel_cache_.emplace(*kernel_key_);
  }
}

// Kernels for other sizes are compiled while an engine runs. Serializing takes milliseconds, which engines of
// one size can do without.
SharedEngine::~SharedEngine() {
  if (has_dynamic_shapes(engine_)) {
    keep_kernels();
  }
  config_.reset();
  if (runtime_cache_.has_value()) {
    RuntimeCachePool::give_back(*kernel_key_, device_, {std::move(*runtime_cache_), kept_bytes_});
  }
}

Result<Bindings> SharedEngine::resolve(const Metadata& metadata, const std::string& label) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return resolve_bindings(engine_, metadata, label);
}

Result<Context> SharedEngine::create_context(abi::AllocationStrategy strategy, const std::string& label,
                                             const EmbeddedKernels& embedded) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return make_context(strategy, label, embedded);
}

Result<std::shared_ptr<SharedContext>> SharedEngine::context_for_turns(const std::string& label,
                                                                       const EmbeddedKernels& embedded) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (auto present = context_for_turns_.lock()) {
    return present;
  }
  auto context = make_context(abi::AllocationStrategy::kUserManaged, label, embedded);
  ET_CHECK_OK_OR_RETURN_ERROR(context.error());
  auto made = std::make_shared<SharedContext>(std::move(*context), auxiliary_streams_);
  context_for_turns_ = made;
  return made;
}

Result<Context> SharedEngine::make_context(abi::AllocationStrategy strategy, const std::string& label,
                                           const EmbeddedKernels& embedded) {
  auto ready = config(embedded, label);
  ET_CHECK_OK_OR_RETURN_ERROR(ready.error());
  (*ready)->set_allocation_strategy(strategy);
  auto context = engine_.create_context(**ready);
  if (!context.ok()) {
    DELEGATE_LOG(
        Error,
        "%s: no execution context could be created; it needs %llu bytes of GPU memory for activations.",
        label.c_str(), static_cast<unsigned long long>(scratch_bytes_));
    return context.error();
  }
  // Serializing takes milliseconds, which a load whose kernels were kept already can do without.
  if (kept_bytes_ == 0) {
    keep_kernels();
  }
  return context;
}

Result<RuntimeConfig*> SharedEngine::config(const EmbeddedKernels& embedded, const std::string& label) {
  if (!config_.has_value()) {
    auto created = engine_.create_runtime_config(library());
    if (!created.ok()) {
      DELEGATE_LOG(Error, "%s: no runtime config could be created.", label.c_str());
      return created.error();
    }
    config_.emplace(std::move(*created));
    start_runtime_cache(embedded, label);
  }
  return &*config_;
}

// Without a cache everything works, only slower: no failure here is an error.
void SharedEngine::start_runtime_cache(const EmbeddedKernels& embedded, const std::string& label) {
  if (!kernel_key_.has_value()) {
    return;
  }
  auto entry = RuntimeCachePool::take(*kernel_key_, device_);
  if (!entry.has_value()) {
    auto made = config_->create_cache();
    if (!made.ok()) {
      return;
    }
    const size_t taken = take_kernels(*made, embedded, label);
    entry.emplace(RuntimeCachePool::Entry{std::move(*made), taken});
  }
  if (config_->set_cache(entry->cache)) {
    runtime_cache_.emplace(std::move(entry->cache));
    kept_bytes_ = entry->kept_bytes;
  }
  take_reason();
}

/// Fills an empty cache, and says with how many bytes.
size_t SharedEngine::take_kernels(RuntimeCache& cache, const EmbeddedKernels& embedded,
                                  const std::string& label) const {
  const auto from_folder = [&] {
    populate_heap(kHeapPerKernelByte * kernel_cache_->size_bytes());
    const std::vector<uint8_t> kernels = kernel_cache_->read();
    return !kernels.empty() && cache.deserialize({kernels.data(), kernels.size()}) ? kernels.size() : 0;
  };
  const auto travelled = embedded.find(*kernel_key_, label);
  if (!travelled.has_value()) {
    return from_folder();
  }
  // The folder has more when an earlier process also compiled kernels for other shapes.
  if (kernel_cache_->size_bytes() > travelled->bytes().size()) {
    if (const size_t taken = from_folder()) {
      return taken;
    }
  }
  populate_heap(kHeapPerKernelByte * travelled->bytes().size());
  if (cache.deserialize(travelled->bytes())) {
    return travelled->bytes().size();
  }
  DELEGATE_LOG(Info, "%s: TensorRT does not take the compiled kernels in the file. TensorRT says: %s.",
               label.c_str(), words_of_tensorrt().c_str());
  return from_folder();
}

Result<std::vector<uint8_t>> SharedEngine::sealed_kernels(const std::string& label) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (runtime_cache_.has_value()) {
    auto serialized = runtime_cache_->serialize();
    if (serialized.ok() && !serialized->bytes().empty()) {
      return seal_kernels(serialized->bytes());
    }
  }
  DELEGATE_LOG(Error, "%s: %s gave none of the kernels that it compiled. TensorRT says: %s.", label.c_str(),
               library().description().c_str(), words_of_tensorrt().c_str());
  return Error::Internal;
}

void SharedEngine::keep_kernels() {
  if (!runtime_cache_.has_value()) {
    return;
  }
  auto serialized = runtime_cache_->serialize();
  if (serialized.ok() && serialized->bytes().size() > kept_bytes_) {
    kernel_cache_->write(serialized->bytes().data(), serialized->bytes().size());
    kept_bytes_ = serialized->bytes().size();
  }
  take_reason();
}

}  // namespace executorch::backends::tensorrt
