#pragma once

#include <executorch/runtime/core/result.h>

#include <string>

#include "blob/blob.h"

namespace executorch::backends::tensorrt {

/// Parses a blob and checks that this process sees the GPU that its engine was exported for. Beside the
/// errors of `parse_blob`: `NotFound` without any GPU, `DelegateInvalidCompatibility` when there are fewer,
/// each after one sentence.
runtime::Result<Blob> parse_blob_for_present_gpu(Bytes bytes, const std::string& label);

}  // namespace executorch::backends::tensorrt
