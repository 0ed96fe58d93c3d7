#pragma once

#include <cstddef>

namespace executorch::backends::tensorrt {

/// Brings memory into the process's heap that the next allocations take, `size_bytes` but no more than 26 MB
/// (less than 1 MB is not worth it), so that they need not bring it in page by page: in a virtual machine
/// every page costs microseconds, for work that allocates megabytes as long as the work itself. Does nothing
/// where the C library or the kernel goes another way.
void populate_heap(size_t size_bytes);

}  // namespace executorch::backends::tensorrt
