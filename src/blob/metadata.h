#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "header.h"

namespace executorch::backends::tensorrt {

/// One engine tensor as the exporter recorded it.
struct BindingRecord {
  std::string name;
  /// Torch's name without prefix, such as `float32`; empty when the exporter did not say.
  std::string dtype;
  /// -1 for a dynamic dimension. Means something only together with `dtype`: without it the list is empty.
  std::vector<int64_t> shape;
  bool is_input = false;
};

enum class AliasKind { kKvCacheUpdate, kUser };

/// An output that shares memory with an input.
struct AliasRecord {
  std::string output;
  std::string input;
  AliasKind kind = AliasKind::kKvCacheUpdate;
};

/// Which TensorRT can read an engine.
enum class EngineFlavor { kTensorRT, kTensorRTRTX, kUnknown };

/// The facts beside an engine, checked for their own consistency; whether the engine agrees is not known
/// here.
struct Metadata {
  /// Inputs in argument order, then outputs.
  std::vector<BindingRecord> bindings;
  /// False when `io_bindings` is empty: then the order follows from the engine's names, see
  /// `order_by_suffix`.
  bool has_bindings = false;
  std::vector<AliasRecord> aliases;
  bool hardware_compatible = false;
  /// CUDA ordinal, 0 to 127.
  int device_id = 0;
  std::string target_platform;
  /// 64 lower-case hexadecimal digits; empty when the exporter did not write a digest.
  std::string engine_sha256;
  EngineFlavor tensorrt_flavor = EngineFlavor::kUnknown;
  /// The version that built the engine, such as `1.6.1.120`; empty when the exporter did not say.
  std::string tensorrt_version;
  /// Such as `8.0`; empty means every GPU that this TensorRT supports, or that the exporter did not say.
  std::vector<std::string> compute_capabilities;
  /// Layers after optimisation, absent when the exporter did not say.
  std::optional<int64_t> layers;
};

/// Reads the JSON of a blob. Unknown keys are ignored, wrong types and contradictions are refused.
///
/// Returns `InvalidProgram` after logging the key, its value and what it should be.
/// Source of the keys: docs/format.md, "Metadata".
executorch::runtime::Result<Metadata> parse_metadata(Bytes json);

/// Checks that every alias pairs a known output with a known input and that no tensor is in two aliases.
///
/// `parse_metadata` does this itself when the blob lists its bindings. Call it again after they were
/// inferred.
executorch::runtime::Error check_aliases(const std::vector<BindingRecord>& bindings,
                                         const std::vector<AliasRecord>& aliases);

/// Orders the engine's names of one direction by their suffix `.N` or `_N`, where N counts from 0 without
/// gaps.
///
/// Returns `InvalidProgram` for a name without a number, a number used twice, and a gap.
executorch::runtime::Result<std::vector<std::string>> order_by_suffix(std::vector<std::string> names);

}  // namespace executorch::backends::tensorrt
