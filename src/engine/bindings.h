#pragma once

#include <executorch/runtime/core/result.h>

#include <string>
#include <vector>

#include "blob/metadata.h"
#include "engine/data_type.h"
#include "tensorrt/abi.h"
#include "tensorrt/objects.h"

namespace executorch::backends::tensorrt {

/// One input or output of an engine, as it must be given at every call.
struct Binding {
  static constexpr int kNoAlias = -1;

  std::string name;
  ScalarType dtype;
  abi::Dims shape;  ///< -1 for a dynamic dimension
  abi::Dims min;    ///< inputs: the smallest and the largest shape of the optimization profile
  abi::Dims max;
  int alias_of = kNoAlias;  ///< outputs: index of the input whose memory it shares
  bool is_aliased = false;  ///< inputs: whether an output shares its memory

  bool is_dynamic() const { return min != max; }
};

/// The arguments of an engine in the order in which the program gives them.
struct Bindings {
  std::vector<Binding> inputs;
  std::vector<Binding> outputs;

  /// Outputs that have memory of their own.
  size_t unaliased_output_count() const;
};

/// Matches what the blob records with what the engine says of itself, by name, once at load.
///
/// Everything that can be wrong without data is refused here: a tensor that only one side knows, another
/// direction, type or shape, types that ExecuTorch lacks, tensors that TensorRT reads on the host, packed
/// memory formats, and aliases that the engine does not have. `label` names the engine in the sentence.
Result<Bindings> resolve_bindings(const Engine& engine, const Metadata& metadata, const std::string& label);

}  // namespace executorch::backends::tensorrt
