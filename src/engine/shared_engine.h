#pragma once

#include <executorch/runtime/core/result.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "blob/blob.h"
#include "engine/bindings.h"
#include "engine/embedded_kernels.h"
#include "engine/kernel_cache.h"
#include "engine/shared_context.h"
#include "tensorrt/objects.h"

namespace executorch::backends::tensorrt {

/// The digest of a blob's engine, in hexadecimal digits.
std::string engine_digest(const Blob& blob);

/// One deserialized engine on one GPU, shared by all loads of the same bytes with the same options: weights
/// are on the device once, however many programs and methods use them. Each load has a context of its own,
/// except that those which take turns in the shared scratch take turns in one context too.
///
/// Engines are the same when a digest of all their bytes is; equal structure with other weights is never
/// merged. Thread-safe.
class SharedEngine {
 public:
  /// What makes two loads share.
  struct Key {
    std::string digest;  ///< as `digest_of_engine` has it
    int device;
    std::optional<int64_t> weight_streaming_budget;
    bool is_private = false;  ///< shared with nobody

    bool operator<(const Key& other) const;
  };

  /// The engine that is loaded for `key`, or the blob's, deserialized now. The GPU must be current. `label`
  /// names the engine in sentences.
  static Result<std::shared_ptr<SharedEngine>> get(const Key& key, const Blob& blob,
                                                   const std::string& label);

  /// Keeps kernels that were compiled while it ran.
  ~SharedEngine();

  /// Creates a context on optimization profile 0. TensorRT-RTX takes its kernels from the program or the
  /// cache folder, or compiles them, which takes seconds, and keeps them in the folder. `embedded` is asked
  /// for the engine's first context only.
  Result<Context> create_context(abi::AllocationStrategy strategy, const std::string& label,
                                 const EmbeddedKernels& embedded = EmbeddedKernels());

  /// The context for loads that use the shared scratch: the present one, or a new one when no load has it.
  Result<std::shared_ptr<SharedContext>> context_for_turns(const std::string& label,
                                                           const EmbeddedKernels& embedded);

  /// What the engine's kernels depend on; nothing for TensorRT, whose engines hold their kernels.
  const std::optional<KernelKey>& kernel_key() const { return kernel_key_; }

  /// The kernels that were compiled for the contexts so far, sealed.
  Result<std::vector<uint8_t>> sealed_kernels(const std::string& label);

  /// Matches a file's record with the engine. Two files may hold one engine and give its arguments in
  /// different orders.
  Result<Bindings> resolve(const Metadata& metadata, const std::string& label);

  const Library& library() const { return runtime_.library(); }
  /// Bytes of activation scratch that one context needs.
  uint64_t scratch_bytes() const { return scratch_bytes_; }
  /// Streams of its own on which TensorRT runs parts of the engine beside the caller's.
  int32_t auxiliary_streams() const { return auxiliary_streams_; }
  /// Bytes of weights on the device, or of the serialized engine where the library does not say.
  uint64_t weights_bytes() const { return weights_bytes_; }

 private:
  SharedEngine(Runtime& runtime, Engine engine, size_t engine_bytes, int device,
               std::optional<KernelKey> kernel_key);
  static Result<std::shared_ptr<SharedEngine>> load(const Key& key, const Blob& blob,
                                                    const std::string& label);
  Result<Context> make_context(abi::AllocationStrategy strategy, const std::string& label,
                               const EmbeddedKernels& embedded);
  Result<RuntimeConfig*> config(const EmbeddedKernels& embedded, const std::string& label);
  void start_runtime_cache(const EmbeddedKernels& embedded, const std::string& label);
  size_t take_kernels(RuntimeCache& cache, const EmbeddedKernels& embedded, const std::string& label) const;
  void keep_kernels();

  Runtime& runtime_;
  const int device_;
  std::mutex mutex_;
  Engine engine_;
  uint64_t scratch_bytes_;
  uint64_t weights_bytes_;
  int32_t auxiliary_streams_;
  std::optional<KernelKey> kernel_key_;
  std::optional<KernelCache> kernel_cache_;
  std::optional<RuntimeCache> runtime_cache_;  // outlives the config that uses it
  std::optional<RuntimeConfig> config_;
  std::weak_ptr<SharedContext> context_for_turns_;
  size_t kept_bytes_ = 0;  ///< size of the kernels as they lie in the program or the cache folder
};

}  // namespace executorch::backends::tensorrt
