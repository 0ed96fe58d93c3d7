#pragma once

#include <string>

#include "tensorrt/abi.h"

namespace executorch::backends::tensorrt {

/// TensorRT's messages in ExecuTorch's log. One object for the life of the process: TensorRT keeps the
/// pointer.
///
/// A logger that another part of the process registered is not reused: nothing says how long it lives.
abi::LoggerInterface& logger();

/// Keeps TensorRT's latest error of each thread, so that a refusal can state TensorRT's own reason.
abi::ErrorRecorderInterface& error_recorder();

/// TensorRT's errors on this thread since the last call, joined to one line and taken away; "" when there
/// were none.
std::string take_reason();

}  // namespace executorch::backends::tensorrt
