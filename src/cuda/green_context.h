#pragma once

#include <cstdint>

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// A number for the green context, a fixed part of the GPU's multiprocessors, that a stream belongs to; 0 for
/// an ordinary stream, and where the driver is too old to have green contexts.
uint64_t green_context_of(StreamView stream);

}  // namespace executorch::backends::tensorrt
