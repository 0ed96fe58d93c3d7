#pragma once

#include <vector>

#include "blob/header.h"

namespace executorch::backends::tensorrt {

/// How many bytes stand before the kernels.
constexpr size_t kKernelSealBytes = 40;

/// Puts a mark and a digest before serialized kernels, so that damage is found before TensorRT sees them.
std::vector<uint8_t> seal_kernels(Bytes kernels);

/// The kernels inside `sealed`, which they point into; empty when the bytes are damaged.
Bytes unseal_kernels(Bytes sealed);

}  // namespace executorch::backends::tensorrt
