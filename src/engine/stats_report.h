#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace executorch::backends::tensorrt {

/// What one loaded engine did since it was loaded, and what it holds.
///
/// `numbers`: `calls`, `calls.plain`, `calls.replay`, `captures`, `graphs` (captured ones that are kept),
/// `staged.inputs`, `staged.outputs` (tensors), `copied_bytes`, `host_waits`, and in bytes `device.weights`,
/// `device.scratch`, `device.staging`, `device.graphs`.
struct EngineReport {
  std::string label;
  int device;
  std::map<std::string, uint64_t> numbers;
  std::map<std::string, uint64_t> fallbacks;  ///< why calls ran plainly that could have been replayed
};

/// The reports of all engines of this process, in the order of loading.
std::vector<EngineReport> report_engines();

/// A number of `EngineReport`, added up over all engines; also `engines` (how many are loaded) and
/// `fallbacks`. Nothing for another name.
std::optional<uint64_t> total_of(std::string_view name);

}  // namespace executorch::backends::tensorrt
