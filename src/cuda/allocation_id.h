#pragma once

#include <cstdint>

namespace executorch::backends::tensorrt {

/// The number of the CUDA allocation that holds an address; no other allocation of this process ever has it.
/// 0 for memory that CUDA does not know, and where the driver does not tell.
///
/// It takes half of what `describe_pointer` takes, and says whether what that said still holds: an address
/// alone may have been freed and given out again, even for host memory.
uint64_t allocation_id(const void* address);

}  // namespace executorch::backends::tensorrt
