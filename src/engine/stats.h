#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace executorch::backends::tensorrt {

/// A number that one thread at a time adds to and any thread reads; adding costs a plain load and store.
class Counter {
 public:
  void add(uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

/// What one loaded engine did since it was loaded.
struct Stats {
  Counter calls;           ///< calls that queued the engine's work
  Counter plain;           ///< of these, queued kernel by kernel
  Counter replayed;        ///< of these, launched as a captured graph
  Counter captures;        ///< graphs captured
  Counter staged_inputs;   ///< input tensors that went through a buffer of the engine
  Counter staged_outputs;  ///< output tensors that did
  Counter copied_bytes;    ///< bytes copied by the engine, both ways
  Counter host_waits;      ///< times that a call waited on the host

  /// Why work that could have been replayed was queued plainly, with how often each reason came up.
  std::map<std::string, uint64_t> fallbacks() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return fallbacks_;
  }

  /// Counts a reason; whether it is new.
  bool add_fallback(const std::string& reason) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ++fallbacks_[reason] == 1;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> fallbacks_;
};

}  // namespace executorch::backends::tensorrt
