#pragma once

#include <cstdint>
#include <vector>

#include "tensorrt/abi.h"

namespace executorch::backends::tensorrt {

/// The output shapes that follow from input shapes, for the few sets of input shapes that were used last:
/// asking TensorRT takes longer than the rest of a call.
class ShapePlans {
 public:
  /// The output shapes for these inputs, most recently used first; null when they are not known.
  const std::vector<abi::Dims>* find(const std::vector<abi::Dims>& inputs);

  const std::vector<abi::Dims>& add(const std::vector<abi::Dims>& inputs, std::vector<abi::Dims> outputs);

 private:
  static constexpr size_t kPlans = 16;

  struct Plan {
    std::vector<abi::Dims> inputs;
    std::vector<abi::Dims> outputs;
  };
  std::vector<Plan> plans_;
};

}  // namespace executorch::backends::tensorrt
