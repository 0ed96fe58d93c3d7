#pragma once

#include <executorch/runtime/core/result.h>
#include <executorch/runtime/core/span.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "blob/blob.h"
#include "cuda/buffer.h"
#include "cuda/event.h"
#include "cuda/stream.h"
#include "engine/arguments.h"
#include "engine/bindings.h"
#include "engine/bound_tensor.h"
#include "engine/embedded_kernels.h"
#include "engine/memory_budget.h"
#include "engine/options.h"
#include "engine/replay.h"
#include "engine/scratch_pool.h"
#include "engine/shape_plans.h"
#include "engine/shared_engine.h"
#include "engine/stats.h"
#include "tensorrt/objects.h"

namespace executorch::backends::tensorrt {

/// When a call may return.
enum class Completion {
  kQueued,    ///< once everything is queued, unless a result lies in host memory
  kFinished,  ///< once the results are there
};

/// One engine of a program, loaded and ready to run.
///
/// Threads: `run` locks the whole call, so calls from several threads are served one after the other. A load
/// on another thread needs no care; a destruction waits for the call that is in progress, and no other may
/// begin then. The engine's device is made current inside and the caller's is restored.
class LoadedEngine {
 public:
  /// Destroys an engine with its device current, after waiting for a call in progress and for queued work.
  struct Destroy {
    void operator()(LoadedEngine* engine) const noexcept;
  };
  using Owner = std::unique_ptr<LoadedEngine, Destroy>;

  /// Loads a delegate blob. `embedded` holds compiled kernels that came with it; `label` names the engine in
  /// every later sentence, such as `method "forward"`.
  ///
  /// Errors: `InvalidProgram` damaged or contradictory bytes; `NotFound` no driver, GPU or TensorRT library;
  /// `DelegateInvalidCompatibility` an engine of another TensorRT or GPU; `NotSupported` what no engine may
  /// contain here.
  static Result<Owner> load(Bytes blob, const LoadOptions& options, const EmbeddedKernels& embedded,
                            std::string label);

  /// Runs the engine: `tensors` are its inputs, then its outputs, in the order of the blob. Outputs that
  /// share memory with an input are either all given or all left out. Outputs are resized to what the engine
  /// writes.
  ///
  /// Device memory is used in place when it is aligned to 256 bytes; anything else goes through buffers of
  /// this object. After an error nothing of this call is running any more.
  Error run(Span<Tensor* const> tensors, StreamView stream, Completion completion);

  int device() const { return device_; }
  const std::string& label() const { return label_; }
  /// Whether the program reads the results by copies and other engines only, which follow on the stream.
  bool results_in_stream_order() const { return results_in_stream_order_; }
  const Stats& stats() const { return stats_; }
  const SharedEngine& shared() const { return *shared_; }
  /// What it holds: weights (shared by all loads of the same engine), scratch of its own (none when it takes
  /// turns in the shared pool), staging buffers, and graphs as far as the driver showed it when they were
  /// made.
  MemoryUse memory_use();
  size_t graph_count();

  /// The last call as another context of the engine needs it to do the same work.
  struct LastCall {
    std::string label;
    int device;
    bool has_run;  ///< without a call there are no shapes
    std::shared_ptr<SharedEngine> engine;
    std::vector<std::pair<Binding, abi::Dims>> inputs;
    std::vector<std::pair<Binding, abi::Dims>> outputs;
  };
  LastCall last_call();

  /// Shows every engine that is loaded in this process, in the order of loading; they stay loaded meanwhile.
  static void visit_all(const std::function<void(LoadedEngine&)>& visit);

 private:
  /// How a tensor's memory can be used.
  enum class Access {
    kInPlace,  ///< the engine reads or writes it: memory of its GPU, or page-locked memory that an integrated
               ///< GPU shares with the host
    kUnaligned,  ///< memory of the engine's GPU, but not aligned as TensorRT asks
    kPinned,     ///< page-locked host memory
    kPageable,   ///< ordinary host memory
  };

  /// A binding, what this call does with it, and what its execution context was told last.
  struct Port {
    explicit Port(Binding given) : binding(std::move(given)) {}

    Binding binding;
    Tensor* tensor = nullptr;  ///< null for an output that is left out because an input is its memory
    Access access = Access::kInPlace;
    bool is_host_memory = false;
    abi::Dims shape{-1, {}};
    void* address = nullptr;
    BoundTensor bound;  ///< the tensor for which all of the above was found out
    abi::Dims context_shape{-1, {}};
    void* context_address = nullptr;
    DeviceBuffer device_staging;
    PinnedBuffer pinned_staging;
  };

  /// A call's stream and what is asked about it once.
  struct CallStream {
    StreamView view;
    bool is_capturing = false;  ///< by the caller
  };

  LoadedEngine(std::string label, int device, bool is_integrated, std::shared_ptr<SharedEngine> shared,
               std::shared_ptr<SharedContext> context, Bindings bindings, Event event,
               DeviceBuffer placeholder, const LoadOptions& options);

  // One call, in this order (execution.cpp).
  Error assign(Span<Tensor* const> tensors);
  bool is_bound() const;
  Error bind();
  bool remember_tensors();
  Error bind_input(Port& port);
  Error find_output_shapes();
  Result<std::vector<abi::Dims>> infer_output_shapes();
  Error bind_output(Port& port);
  Error start_after_last_call(const CallStream& stream);
  Error queue(const CallStream& stream);
  Error stage_input(Port& port, StreamView stream);
  Error launch(const CallStream& stream);
  static bool needs_delivery(const Port& port);
  Error queue_delivery(Port& port, StreamView stream);
  Error mark_end(const CallStream& stream);
  Error finish(const CallStream& stream, Completion completion);

  // The launch itself (launch.cpp).
  Error enqueue_into_capture(StreamView stream);
  Error launch_by_key(StreamView stream, const ScratchPool::Lease* scratch);
  void build_key(StreamView stream, const ScratchPool::Lease* scratch);
  Error enqueue(StreamView stream, const ScratchPool::Lease* scratch);
  Error capture(StreamView stream, const ScratchPool::Lease* scratch);
  Result<StreamView> capture_stream(StreamView stream);
  SharedContext::Turn take_context();
  Error update_context(const SharedContext::Turn& context, StreamView stream,
                       const ScratchPool::Lease* scratch);

  Error set_context_shapes(Context& context);
  Error set_context_addresses(Context& context);
  Error reserve_staging(Port& port);
  Error wait_for_last_call();
  Error find_access(Port& port, const char* direction) const;
  /// Logs what TensorRT refused, with its reason.
  Error refused(const char* what, const std::string& tensor) const;

  const std::string label_;
  const int device_;
  const bool is_integrated_;
  const bool results_in_stream_order_;
  std::mutex mutex_;
  std::shared_ptr<SharedEngine> shared_;
  std::shared_ptr<SharedContext> context_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  size_t unaliased_output_count_;
  ShapePlans shape_plans_;
  std::vector<abi::Dims> input_shapes_;
  Event event_;                         ///< the end of the last call
  DeviceBuffer placeholder_;            ///< what empty tensors point at: TensorRT wants an address for each
  bool can_stay_bound_ = false;         ///< whether a call with the tensors of the last one is bound already
  bool in_flight_ = false;              ///< whether the last call returned before its work ended
  unsigned long long last_stream_ = 0;  ///< then, the id of its stream
  bool waits_for_host_ = false;         ///< whether this call has a result in host memory
  std::shared_ptr<ScratchPool> scratch_pool_;  ///< null when the context has scratch of its own
  const void* context_scratch_ = nullptr;
  std::optional<Replay> replay_;  ///< nothing when graphs are not wanted
  ReplayKey key_;
  std::optional<Stream> capture_stream_;
  Stats stats_;
};

}  // namespace executorch::backends::tensorrt
