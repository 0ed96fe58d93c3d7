#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/stream.h"
#include "tensorrt/objects.h"

namespace executorch::backends::tensorrt {

/// Keeps the streams on which TensorRT runs parts of an engine beside the caller's in the caller's part of
/// the GPU. TensorRT makes streams of its own for them, which would leave a green context; there it is given
/// streams of that context instead. Belongs to one execution context. Not thread-safe.
class AuxiliaryStreams {
 public:
  /// `count` is how many the engine uses.
  explicit AuxiliaryStreams(int32_t count) : count_(count) {}

  /// Tells `context`, before it queues work on `stream`, where the rest of that work is to go. `label` names
  /// the engine in sentences.
  Error follow(StreamView stream, Context& context, const std::string& label);

 private:
  Error move_to(StreamView stream, uint64_t green_context, Context& context, const std::string& label);

  int32_t count_;
  uint64_t green_context_ = 0;   ///< of `streams_`; 0: TensorRT uses its own
  std::vector<Stream> streams_;  ///< outlives what was queued on it: CUDA destroys streams when they are idle
};

}  // namespace executorch::backends::tensorrt
