#include "engine/memory_budget.h"

#include <cstdio>
#include <set>

#include "engine/engine.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

std::string MemoryUse::text() const {
  return megabytes(total()) + " (weights " + megabytes(weights) + ", scratch " + megabytes(scratch) +
         ", staging " + megabytes(staging) + ", graphs " + megabytes(graphs) + ")";
}

MemoryUse memory_in_use(int device) {
  MemoryUse use;
  std::set<const SharedEngine*> counted;
  LoadedEngine::visit_all([&](LoadedEngine& engine) {
    if (engine.device() != device) {
      return;
    }
    const MemoryUse own = engine.memory_use();
    use.weights += counted.insert(&engine.shared()).second ? own.weights : 0;
    use.scratch += own.scratch;
    use.staging += own.staging;
    use.graphs += own.graphs;
  });
  use.scratch += ScratchPool::bytes_on(device);
  return use;
}

runtime::Error check_memory_budget(uint64_t budget_bytes, int device, const MemoryUse& more,
                                   const std::string& label) {
  const MemoryUse present = memory_in_use(device);
  if (present.total() <= budget_bytes && more.total() <= budget_bytes - present.total()) {
    return Error::Ok;
  }
  DELEGATE_LOG(Error,
               "%s: loading it takes %s on GPU %d, where the engines of this process hold %s already, and "
               "device_memory_budget allows %s. Free programs, let engines share scratch "
               "(use_shared_activation_scratch), or "
               "raise the budget.",
               label.c_str(), more.text().c_str(), device, present.text().c_str(),
               megabytes(budget_bytes).c_str());
  return Error::MemoryAllocationFailed;
}

}  // namespace executorch::backends::tensorrt
