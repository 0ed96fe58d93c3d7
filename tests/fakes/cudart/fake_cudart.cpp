#include "fake_cudart.h"

#include <string>

#include "control.h"
#include "memory.h"
#include "stream.h"

using namespace fake_cuda;

namespace {

/// Live things by name.
long live(const std::string& what) {
  const auto number = [](size_t n) { return static_cast<long>(n); };
  if (what == "device_blocks") {
    return number(memory().live_blocks(Kind::kDevice));
  }
  if (what == "device_bytes") {
    return number(memory().live_bytes(Kind::kDevice, -1));
  }
  if (what == "pinned_blocks") {
    return number(memory().live_blocks(Kind::kPinned));
  }
  if (what == "managed_blocks") {
    return number(memory().live_blocks(Kind::kManaged));
  }
  if (what == "streams") {
    return number(handles().streams.size());
  }
  if (what == "events") {
    return number(handles().events.size());
  }
  if (what == "graphs") {
    return number(handles().graphs.size() + handles().executables.size());
  }
  return live_elsewhere()[what];
}

bool begins_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

}  // namespace

extern "C" {

void fake_cuda_reset() {
  const Lock lock(mutex());
  control() = Control{};
  current_device() = 0;
  last_error() = cudaSuccess;
}

void fake_cuda_set_devices(int number) {
  const Lock lock(mutex());
  control().device_count = number;
  control().devices.resize(number > 0 ? static_cast<size_t>(number) : 0);
}

void fake_cuda_set_compute_capability(int device, int major, int minor) {
  const Lock lock(mutex());
  Device& facts = control().devices.at(static_cast<size_t>(device));
  facts.major = major;
  facts.minor = minor;
}

void fake_cuda_set_integrated(int device, int integrated) {
  const Lock lock(mutex());
  control().devices.at(static_cast<size_t>(device)).integrated = integrated;
}

void fake_cuda_set_memory(size_t bytes) {
  const Lock lock(mutex());
  control().memory_bytes = bytes;
}

void fake_cuda_fail(const char* function, long n, cudaError_t error) {
  const Lock lock(mutex());
  control().failing_function = function == nullptr ? "" : function;
  control().calls_until_failure = n;
  control().failure = error;
  control().failed = false;
}

int fake_cuda_failed() {
  const Lock lock(mutex());
  return control().failed ? 1 : 0;
}

void fake_cuda_fail_work(cudaError_t error) {
  const Lock lock(mutex());
  control().next_work_failure = error;
}

long fake_cuda_count(const char* name) {
  const Lock lock(mutex());
  const std::string text = name;
  if (begins_with(text, "live.")) {
    return live(text.substr(5));
  }
  if (text == "violations") {
    return static_cast<long>(control().violations.size());
  }
  const bool known = text == "calls" || text == "host_waits" || text == "legacy_stream_work" ||
                     text == "kernels" || text == "graph_launches" || begins_with(text, "calls.") ||
                     begins_with(text, "copies.") || begins_with(text, "bytes.");
  const auto it = control().counters.find(text);
  return it != control().counters.end() ? it->second : known ? 0 : -1;
}

const char* fake_cuda_violations() {
  const Lock lock(mutex());
  thread_local std::string text;
  text.clear();
  for (const std::string& sentence : control().violations) {
    text += sentence + "\n";
  }
  return text.c_str();
}

cudaError_t fake_cuda_enter(const char* function) {
  const Lock lock(mutex());
  return enter(function);
}

void fake_cuda_add_live(const char* name, long by) {
  const Lock lock(mutex());
  live_elsewhere()[name] += by;
}

void fake_cuda_violate(const char* sentence) {
  const Lock lock(mutex());
  violation(sentence);
}

}  // extern "C"
