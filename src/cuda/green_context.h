#pragma once

#include <cstdint>

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// A number for the green context, a fixed part of the GPU's multiprocessors, that a stream belongs to; 0 for
/// an ordinary stream, and where the driver is too old to have green contexts. No other green context has it,
/// ever, where the driver is of CUDA 13 or newer; before, a destroyed one's can come again.
uint64_t green_context_of(StreamView stream);

/// A new stream in the green context of `neighbour`, which must be in one. It waits for no default stream. It
/// may be destroyed after its green context, but not be used then.
runtime::Result<Stream> create_stream_beside(StreamView neighbour);

}  // namespace executorch::backends::tensorrt
