#pragma once

// What is in the bytes of a fake engine: the magic of its family, the version that "built" it, and JSON.
//
//   offset 0: `vtrt` (TensorRT-RTX) or `ftrt` (TensorRT)    offset 4: uint32 major * 10000 + minor * 100 +
//   patch offset 8: JSON, see `parse`. tests/fakes/fake_engine.py and tests/cpp/support/fake_engine.h write
//   it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorrt/abi.h"

namespace fake_tensorrt {

namespace abi = executorch::backends::tensorrt::abi;

struct Profile {
  abi::Dims min;
  abi::Dims opt;
  abi::Dims max;
};

struct TensorDescription {
  std::string name;
  bool is_input = false;
  abi::DataType dtype = abi::DataType::kFloat;
  abi::Dims shape{};
  std::vector<Profile> profiles;  ///< dynamic inputs only
  bool on_host = false;
  bool shape_inference = false;
  int32_t format = 0;
  std::string aliased_input;  ///< outputs that the engine itself declares as aliased
};

/// How one output is computed from inputs; see functions.h.
struct Operation {
  std::string output;
  std::string op;
  std::vector<std::string> inputs;
  std::vector<double> coefficients;
  double constant = 0;
  int32_t dim = 0;
};

struct EngineDescription {
  int32_t version = 0;
  std::vector<TensorDescription> tensors;
  std::vector<Operation> operations;
  std::vector<std::string> compute_capabilities;  ///< empty: all
  bool version_compatible = false;
  int32_t layers = 1;
  int32_t profile_count = 1;
  int32_t auxiliary_streams = 0;
  int64_t scratch_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t streamable_bytes = 0;

  const TensorDescription* find(const char* name) const;
};

/// The magic of serialized engines, `vtrt` or `ftrt`; empty when the bytes are too short.
std::string magic_of(const void* bytes, size_t size);

/// Nothing when the bytes after the magic are damaged.
std::optional<EngineDescription> parse(const void* bytes, size_t size);

size_t size_of(abi::DataType dtype);

/// Elements of a shape; 0-D has one.
int64_t volume(const abi::Dims& dims);

}  // namespace fake_tensorrt
