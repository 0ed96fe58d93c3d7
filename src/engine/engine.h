#pragma once

#include <executorch/runtime/core/result.h>
#include <executorch/runtime/core/span.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "blob/blob.h"
#include "cuda/buffer.h"
#include "cuda/event.h"
#include "cuda/stream.h"
#include "engine/arguments.h"
#include "engine/bindings.h"
#include "engine/options.h"
#include "tensorrt/objects.h"

namespace executorch::backends::tensorrt {

/// When a call may return.
enum class Completion {
  kQueued,    ///< once everything is queued, unless a result lies in host memory
  kFinished,  ///< once the results are there
};

/// One engine of a program, loaded and ready to run.
///
/// Threads: `run` locks the whole call, so calls from several threads are served one after the other; a load
/// or a destruction on another thread needs no care as long as no call is in progress on this object. The
/// engine's device is made current inside and the caller's is restored.
class LoadedEngine {
 public:
  /// Destroys an engine with its device current, after waiting for work that is still queued.
  struct Destroy {
    void operator()(LoadedEngine* engine) const noexcept;
  };
  using Owner = std::unique_ptr<LoadedEngine, Destroy>;

  /// Loads a delegate blob. `label` names the engine in every later sentence, such as `method "forward"`.
  ///
  /// Errors: `InvalidProgram` damaged or contradictory bytes; `NotFound` no driver, GPU or TensorRT library;
  /// `DelegateInvalidCompatibility` an engine of another TensorRT or GPU; `NotSupported` what no engine may
  /// contain here.
  static Result<Owner> load(Bytes blob, const LoadOptions& options, std::string label);

  /// Runs the engine: `tensors` are its inputs, then its outputs, in the order of the blob. Outputs that
  /// share memory with an input are either all given or all left out. Outputs are resized to what the engine
  /// writes.
  ///
  /// Device memory is used in place when it is aligned to 256 bytes; anything else goes through buffers of
  /// this object. After an error nothing of this call is running any more.
  Error run(Span<Tensor* const> tensors, StreamView stream, Completion completion);

  int device() const { return device_; }
  const std::string& label() const { return label_; }

 private:
  /// How a tensor's memory can be used.
  enum class Access {
    kInPlace,    ///< the engine reads or writes it
    kUnaligned,  ///< memory of the engine's GPU, but not aligned as TensorRT asks
    kPinned,     ///< page-locked host memory
    kPageable,   ///< ordinary host memory
  };

  /// A binding, what its execution context was told last, and what this call does with it.
  struct Port {
    explicit Port(Binding given) : binding(std::move(given)) {}

    Binding binding;
    abi::Dims shape{-1, {}};
    void* address = nullptr;
    DeviceBuffer device_staging;
    PinnedBuffer pinned_staging;
    Tensor* tensor = nullptr;  ///< null for an output that is left out because an input is its memory
    Access access = Access::kInPlace;
  };

  LoadedEngine(std::string label, int device, Engine engine, Context context, Bindings bindings, Event event,
               DeviceBuffer placeholder);

  // One call, in this order (execution.cpp).
  Error assign(Span<Tensor* const> tensors);
  Error start_after_last_call(StreamView stream);
  Error queue(StreamView stream);
  Error bind_input(Port& port, StreamView stream);
  Error stage_input(Port& port, StreamView stream);
  Error infer_output_shapes();
  Error bind_output(Port& port);
  static bool needs_delivery(const Port& port);
  Error queue_delivery(Port& port, StreamView stream);
  Error finish(StreamView stream, Completion completion);

  Error set_shape(Port& port, const abi::Dims& shape);
  Error set_address(Port& port, void* address);
  Error reserve_staging(Port& port);
  Error wait_for_last_call();
  Error find_access(Port& port, const char* direction) const;

  std::string label_;
  int device_;
  std::mutex mutex_;
  Engine engine_;
  Context context_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  size_t unaliased_output_count_;
  Event event_;               ///< the end of the last call
  DeviceBuffer placeholder_;  ///< what empty tensors point at: TensorRT wants an address for each
  StreamView last_stream_ = StreamView::per_thread();
  bool in_flight_ = false;       ///< whether the last call returned before its work ended
  bool shapes_changed_ = true;   ///< whether output shapes must be inferred again
  bool waits_for_host_ = false;  ///< whether this call has a result in host memory
};

}  // namespace executorch::backends::tensorrt
