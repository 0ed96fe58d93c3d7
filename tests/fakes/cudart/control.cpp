#include "control.h"

#include <cstdlib>

namespace fake_cuda {

namespace {

// Never destroyed: the delegate may call us while the process ends.
struct State {
  std::mutex mutex;
  Control control;
  std::map<std::string, long> live_elsewhere;

  State() {
    if (const char* count = std::getenv("FAKE_CUDA_DEVICES"); count != nullptr) {
      control.device_count = std::atoi(count);
      control.devices.resize(control.device_count > 0 ? static_cast<size_t>(control.device_count) : 0);
    }
  }
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

}  // namespace

std::mutex& mutex() { return state().mutex; }
Control& control() { return state().control; }
std::map<std::string, long>& live_elsewhere() { return state().live_elsewhere; }

int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

void count(const std::string& name, long by) { control().counters[name] += by; }

void violation(const std::string& sentence) { control().violations.push_back(sentence); }

cudaError_t enter(const char* function) {
  count("calls");
  count(std::string("calls.") + function);
  Control& c = control();
  if (c.calls_until_failure == 0 || (!c.failing_function.empty() && c.failing_function != function)) {
    return cudaSuccess;
  }
  if (--c.calls_until_failure > 0) {
    return cudaSuccess;
  }
  c.failed = true;
  return c.failure;
}

cudaError_t machine_state() {
  if (control().device_count < 0) {
    return cudaErrorInsufficientDriver;
  }
  return control().device_count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

}  // namespace fake_cuda
