#include "engine/stats_report.h"

#include <algorithm>
#include <iterator>

#include "engine/engine.h"

namespace executorch::backends::tensorrt {

namespace {

constexpr std::string_view kNumbers[] = {"calls",        "calls.plain",    "calls.replay",   "captures",
                                         "graphs",       "staged.inputs",  "staged.outputs", "copied_bytes",
                                         "host_waits",   "device.weights", "device.scratch", "device.staging",
                                         "device.graphs"};

EngineReport report(LoadedEngine& engine) {
  const Stats& stats = engine.stats();
  const MemoryUse memory = engine.memory_use();
  return {engine.label(),
          engine.device(),
          {{"calls", stats.calls.value()},
           {"calls.plain", stats.plain.value()},
           {"calls.replay", stats.replayed.value()},
           {"captures", stats.captures.value()},
           {"graphs", engine.graph_count()},
           {"staged.inputs", stats.staged_inputs.value()},
           {"staged.outputs", stats.staged_outputs.value()},
           {"copied_bytes", stats.copied_bytes.value()},
           {"host_waits", stats.host_waits.value()},
           {"device.weights", memory.weights},
           {"device.scratch", memory.scratch},
           {"device.staging", memory.staging},
           {"device.graphs", memory.graphs}},
          stats.fallbacks()};
}

}  // namespace

std::vector<EngineReport> report_engines() {
  std::vector<EngineReport> reports;
  LoadedEngine::visit_all([&](LoadedEngine& engine) { reports.push_back(report(engine)); });
  return reports;
}

std::optional<uint64_t> total_of(std::string_view name) {
  const std::vector<EngineReport> reports = report_engines();
  if (name == "engines") {
    return reports.size();
  }
  if (name == "device.shared_scratch") {
    return ScratchPool::bytes_on_all();
  }
  const bool counts_fallbacks = name == "fallbacks";
  if (!counts_fallbacks && std::find(std::begin(kNumbers), std::end(kNumbers), name) == std::end(kNumbers)) {
    return std::nullopt;
  }
  uint64_t total = 0;
  for (const EngineReport& engine : reports) {
    if (!counts_fallbacks) {
      total += engine.numbers.at(std::string(name));
      continue;
    }
    for (const auto& [reason, count] : engine.fallbacks) {
      total += count;
    }
  }
  return total;
}

}  // namespace executorch::backends::tensorrt
