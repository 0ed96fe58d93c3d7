#pragma once

#include <optional>

#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// The stream that the caller chose for this thread: through ExecuTorch's CUDA extension when that library is
/// in the process and has one, else through our own guard. Nothing when the caller chose none.
std::optional<StreamView> caller_stream();

/// The caller's stream, else the default stream of this thread.
StreamView current_stream();

}  // namespace executorch::backends::tensorrt
