#include "engine/engine.h"

#include <algorithm>
#include <list>
#include <utility>

#include "cuda/device_info.h"
#include "cuda/device_scope.h"
#include "engine/target_device.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

constexpr size_t kPlaceholderBytes = 256;

// An engine that needs no scratch has nothing to take turns for.
bool uses_scratch_pool(const SharedEngine& engine, const LoadOptions& options) {
  return options.use_shared_activation_scratch && engine.scratch_bytes() > 0;
}

/// What a load adds to a GPU before its first call.
MemoryUse memory_of_load(const SharedEngine& engine, bool is_shared, int device, const LoadOptions& options) {
  MemoryUse more;
  more.weights = is_shared ? 0 : engine.weights_bytes();
  more.staging = kPlaceholderBytes;
  if (uses_scratch_pool(engine, options)) {
    const uint64_t pool = ScratchPool::bytes_on(device);
    more.scratch = engine.scratch_bytes() > pool ? engine.scratch_bytes() - pool : 0;
  } else {
    more.scratch = engine.scratch_bytes();
  }
  return more;
}

/// Every loaded engine, for reports. Never destroyed, as programs may be freed while the process ends.
struct Registry {
  std::mutex mutex;
  std::list<LoadedEngine*> engines;

  static Registry& instance() {
    static auto* const registry = new Registry;
    return *registry;
  }
};

SharedEngine::Key key_of(const Blob& blob, const LoadOptions& options) {
  return {engine_digest(blob), blob.metadata.device_id, options.weight_streaming_budget,
          !options.use_shared_engines};
}

Result<std::shared_ptr<SharedContext>> context_of(SharedEngine& engine, const LoadOptions& options,
                                                  const EmbeddedKernels& embedded, const std::string& label) {
  if (uses_scratch_pool(engine, options)) {
    return engine.context_for_turns(label, embedded);
  }
  auto context = engine.create_context(abi::AllocationStrategy::kStatic, label, embedded);
  ET_CHECK_OK_OR_RETURN_ERROR(context.error());
  return std::make_shared<SharedContext>(std::move(*context), engine.auxiliary_streams());
}

}  // namespace

LoadedEngine::LoadedEngine(std::string label, int device, bool is_integrated,
                           std::shared_ptr<SharedEngine> shared, std::shared_ptr<SharedContext> context,
                           Bindings bindings, Event event, DeviceBuffer placeholder,
                           const LoadOptions& options)
    : label_(std::move(label)),
      device_(device),
      is_integrated_(is_integrated),
      results_in_stream_order_(options.results_in_stream_order),
      shared_(std::move(shared)),
      context_(std::move(context)),
      unaliased_output_count_(bindings.unaliased_output_count()),
      event_(std::move(event)),
      placeholder_(std::move(placeholder)),
      scratch_pool_(uses_scratch_pool(*shared_, options) ? ScratchPool::of(device) : nullptr) {
  for (Binding& binding : bindings.inputs) {
    inputs_.emplace_back(std::move(binding));
  }
  for (Binding& binding : bindings.outputs) {
    outputs_.emplace_back(std::move(binding));
  }
  if (options.use_cuda_graphs) {
    replay_.emplace();
  }
  auto& registry = Registry::instance();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.engines.push_back(this);
}

void LoadedEngine::Destroy::operator()(LoadedEngine* engine) const noexcept {
  {
    auto& registry = Registry::instance();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    registry.engines.remove(engine);
  }
  {
    const std::lock_guard<std::mutex> call(engine->mutex_);  // one that another thread has not ended
  }
  const DeviceScope scope(engine->device_);
  static_cast<void>(engine->wait_for_last_call());
  delete engine;
}

void LoadedEngine::visit_all(const std::function<void(LoadedEngine&)>& visit) {
  auto& registry = Registry::instance();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  for (LoadedEngine* engine : registry.engines) {
    visit(*engine);
  }
}

Result<LoadedEngine::Owner> LoadedEngine::load(Bytes bytes, const LoadOptions& options,
                                               const EmbeddedKernels& embedded, std::string label) {
  auto blob = parse_blob_for_present_gpu(bytes, label);
  ET_CHECK_OK_OR_RETURN_ERROR(blob.error());
  const int device = blob->metadata.device_id;
  const DeviceScope scope(device);
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  auto shared = SharedEngine::get(key_of(*blob, options), *blob, label);
  ET_CHECK_OK_OR_RETURN_ERROR(shared.error());
  auto bindings = (*shared)->resolve(blob->metadata, label);
  ET_CHECK_OK_OR_RETURN_ERROR(bindings.error());
  // A load that is checked counts for the next check once it is registered, so loads under a budget take
  // turns.
  static std::mutex budget_mutex;
  std::unique_lock<std::mutex> budgeted;
  if (options.device_memory_budget.has_value()) {
    budgeted = std::unique_lock<std::mutex>(budget_mutex);
    const MemoryUse more = memory_of_load(**shared, shared->use_count() > 1, device, options);
    ET_CHECK_OK_OR_RETURN_ERROR(check_memory_budget(*options.device_memory_budget, device, more, label));
  }
  auto context = context_of(**shared, options, embedded, label);
  ET_CHECK_OK_OR_RETURN_ERROR(context.error());
  auto integrated = is_integrated(device);
  ET_CHECK_OK_OR_RETURN_ERROR(integrated.error());
  auto event = Event::create();
  ET_CHECK_OK_OR_RETURN_ERROR(event.error());
  DeviceBuffer placeholder;
  ET_CHECK_OK_OR_RETURN_ERROR(placeholder.reserve(kPlaceholderBytes));
  return Owner(new LoadedEngine(std::move(label), device, *integrated, std::move(*shared),
                                std::move(*context), std::move(*bindings), std::move(*event),
                                std::move(placeholder), options));
}

MemoryUse LoadedEngine::memory_use() {
  const std::lock_guard<std::mutex> lock(mutex_);
  MemoryUse use;
  use.weights = shared_->weights_bytes();
  use.scratch = scratch_pool_ == nullptr ? shared_->scratch_bytes() : 0;
  use.staging = placeholder_.size_bytes();
  for (const auto* ports : {&inputs_, &outputs_}) {
    for (const Port& port : *ports) {
      use.staging += port.device_staging.size_bytes();
    }
  }
  use.graphs = replay_.has_value() ? replay_->graph_bytes() : 0;
  return use;
}

size_t LoadedEngine::graph_count() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return replay_.has_value() ? replay_->graph_count() : 0;
}

LoadedEngine::LastCall LoadedEngine::last_call() {
  const std::lock_guard<std::mutex> lock(mutex_);
  LastCall call{label_, device_, stats_.calls.value() > 0, shared_, {}, {}};
  for (const Port& input : inputs_) {
    call.inputs.emplace_back(input.binding, input.shape);
  }
  for (const Port& output : outputs_) {
    call.outputs.emplace_back(output.binding, output.shape);
  }
  return call;
}

}  // namespace executorch::backends::tensorrt
