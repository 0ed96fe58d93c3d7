#pragma once

#include <cstddef>

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// Queues a copy to `device`, which must be current. The source may change as soon as this returns, unless it
/// is page-locked: then it must stay until the stream has passed.
///
/// Ordinary memory goes in pieces through page-locked memory that the process keeps, so that the CPU fills
/// one piece while the bus carries another.
Error copy_to_device(void* target, const void* source, size_t size_bytes, int device, StreamView stream);

/// Copies from `device`, which must be current, and waits for the stream: the result is there on return.
Error copy_to_host(void* target, const void* source, size_t size_bytes, int device, StreamView stream);

/// Frees the page-locked memory that no copy uses at the moment.
void free_idle_copy_memory();

}  // namespace executorch::backends::tensorrt
