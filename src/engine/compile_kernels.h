#pragma once

#include <executorch/runtime/core/result.h>

#include <string>
#include <vector>

#include "blob/header.h"

namespace executorch::backends::tensorrt {

using runtime::Result;

/// An engine's kernels as a program carries them.
struct CompiledKernels {
  std::string key;              ///< of the named data
  std::vector<uint8_t> sealed;  ///< the named data itself
};

/// Loads the engine of a delegate blob on the GPU that the blob names, as a program would, and takes the
/// kernels that TensorRT-RTX compiled for it. The cache folder is used and filled as by any load.
///
/// Errors, after one sentence: those of a load; `NotSupported` for an engine of TensorRT, which holds its
/// kernels already.
Result<CompiledKernels> compile_kernels(Bytes blob, const std::string& label);

}  // namespace executorch::backends::tensorrt
