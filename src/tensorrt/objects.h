#pragma once

#include <executorch/runtime/core/result.h>
#include <executorch/runtime/core/span.h>

#include <memory>
#include <mutex>
#include <string>

#include "tensorrt/abi.h"
#include "tensorrt/library.h"

namespace executorch::backends::tensorrt {

using runtime::Span;

/// Owns one of TensorRT's objects and destroys it through its deleting destructor.
class Object {
 public:
  /// The implementation pointer, on which methods are called. Verified when the object was adopted.
  void* implementation() const { return outer_->implementation; }
  void* outer() const { return outer_.get(); }

 protected:
  /// Takes over what a factory returned, after checking that it is an object of the expected kind: not null,
  /// no small number (some libraries return one instead of null), every used slot inside mapped code, and
  /// `getPImpl` the object itself. On failure logs `what` and returns `Internal`.
  ///
  /// `home`, when given, must hold every slot. A dispatch runtime's engines live in another library, so only
  /// the runtime object is held to it.
  /// `knows_itself` is false for the kinds that have no `getPImpl`.
  static Error verify(void* outer, Span<const int> slots, const Library* home, const char* what,
                      bool knows_itself = true);

  explicit Object(void* outer) : outer_(static_cast<abi::Outer*>(outer)) {}

 private:
  struct Destroy {
    void operator()(abi::Outer* outer) const noexcept;
  };
  std::unique_ptr<abi::Outer, Destroy> outer_;
};

/// Bytes that the library owns.
class HostMemory : public Object {
 public:
  static Result<HostMemory> adopt(void* outer);
  Span<const uint8_t> bytes() const;

 private:
  using Object::Object;
};

/// TensorRT-RTX's compiled kernels of an engine. It outlives the contexts that were created with it.
class RuntimeCache : public Object {
 public:
  static Result<RuntimeCache> adopt(void* outer);

  /// Takes over kernels that were serialized on the same GPU model with the same library version; false, and
  /// unchanged, when they do not fit.
  bool deserialize(Span<const uint8_t> bytes);
  Result<HostMemory> serialize() const;

 private:
  using Object::Object;
};

/// How execution contexts are created.
class RuntimeConfig : public Object {
 public:
  static Result<RuntimeConfig> adopt(void* outer, const Library& library);

  void set_allocation_strategy(abi::AllocationStrategy strategy);
  /// TensorRT-RTX only: an empty cache, and its use by the contexts to come.
  Result<RuntimeCache> create_cache();
  bool set_cache(const RuntimeCache& cache);

 private:
  using Object::Object;
};

/// One execution context of an engine, on optimization profile 0. Destroy it before its engine. Not
/// thread-safe.
class Context : public Object {
 public:
  static Result<Context> adopt(void* outer);

  bool set_input_shape(const char* tensor, const abi::Dims& shape);
  /// The shape that follows from the input shapes; -1 where it is not known yet.
  abi::Dims shape(const char* tensor) const;
  bool set_tensor_address(const char* tensor, void* address);
  /// 0 when every output shape is known; the number of inputs still without a shape; -1 on error.
  int32_t infer_shapes();
  /// Queues the engine's work on `stream` (a `cudaStream_t`). Bound memory stays in use until the stream
  /// passes it.
  bool enqueue(void* stream);

  /// Runs what goes beside the caller's stream on these (of `cudaStream_t`, distinct, no default streams)
  /// from the next `enqueue` on, instead of on streams of TensorRT's own; with none, on those again.
  void set_auxiliary_streams(Span<void* const> streams);

  /// Gives a context of the strategy kUserManaged its scratch, in use from `enqueue` until the work has
  /// ended.
  void set_device_memory(void* block, size_t size_bytes);
  /// TensorRT-RTX only: what the library says of capturing on `stream`. Version 1.6 denies streams that it
  /// can be captured on, so nothing is decided by it.
  bool is_capturable(void* stream);

 private:
  using Object::Object;
};

/// A deserialized engine. Destroy it after its contexts and before its runtime. Not thread-safe.
class Engine : public Object {
 public:
  static Result<Engine> adopt(void* outer);

  int32_t tensor_count() const;
  /// Name of the I/O tensor `index`, below `tensor_count`; lives as long as the engine.
  const char* tensor_name(int32_t index) const;
  /// kNone when there is no such tensor. The other queries give plausible values for unknown names: ask this
  /// first.
  abi::IOMode mode(const char* tensor) const;
  abi::DataType data_type(const char* tensor) const;
  abi::Location location(const char* tensor) const;
  /// Whether the values, not only the shape, of an input decide shapes (or an output is made of such values).
  bool is_shape_inference_io(const char* tensor) const;
  abi::Dims shape(const char* tensor) const;
  abi::Dims profile_shape(const char* tensor, int32_t profile, abi::ProfileSelector selector) const;
  /// The memory format number of a tensor in a profile; 0 is linear.
  int32_t format(const char* tensor, int32_t profile) const;
  int32_t profile_count() const;
  int32_t layer_count() const;
  int32_t auxiliary_stream_count() const;
  /// Bytes of activation scratch of one context, the maximum over profiles.
  int64_t device_memory_size() const;
  /// Bytes of weights; -1 when the library does not say.
  int64_t weights_size() const;
  /// Bytes of weights that can be streamed; 0 when the engine was not built for it.
  int64_t streamable_weights_size() const;
  /// Only before the first context exists. Bytes kept on the device.
  bool set_weight_streaming_budget(int64_t size_bytes);
  int64_t weight_streaming_budget() const;
  int64_t weight_streaming_automatic_budget() const;
  /// The input that must share memory with this output, or null.
  const char* aliased_input(const char* output) const;

  Result<RuntimeConfig> create_runtime_config(const Library& library);

  /// Creates a context. TensorRT-RTX compiles the engine's kernels here, or takes them from the config's
  /// cache.
  Result<Context> create_context(const RuntimeConfig& config);

 private:
  using Object::Object;
};

/// A TensorRT runtime. One per library serves the whole process; deserializing is serialised by a lock.
class Runtime : public Object {
 public:
  /// The runtime of `library`, created at the first call. Call it only where the CUDA driver was seen to
  /// work: without one some libraries return a number that is no object.
  static Result<Runtime*> of(const Library& library);

  /// Makes an engine from its serialized bytes, which may be freed afterwards. On failure nothing is logged
  /// and `reason` holds TensorRT's own words.
  Result<Engine> deserialize(Span<const uint8_t> engine, std::string& reason);

  const Library& library() const { return library_; }

 private:
  Runtime(void* outer, const Library& library) : Object(outer), library_(library) {}
  static Result<std::unique_ptr<Runtime>> create(const Library& library);

  const Library& library_;
  std::mutex mutex_;
};

}  // namespace executorch::backends::tensorrt
