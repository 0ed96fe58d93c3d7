#include "tensorrt/diagnostics.h"

#include "log/log.h"

#include <atomic>

namespace executorch::backends::tensorrt {

namespace {

constexpr int32_t kUnspecifiedError = 1;
constexpr size_t kReasonLimit = 2000;

class Logger final : public abi::LoggerInterface {
 public:
  abi::InterfaceInfo interface_info() const noexcept override { return {"ILogger", 1, 0}; }

  void log(abi::Severity severity, const char* message) noexcept override {
    switch (severity) {
      case abi::Severity::kInternalError:
      case abi::Severity::kError:
        DELEGATE_LOG(Error, "TensorRT: %s", message);
        break;
      case abi::Severity::kWarning:
        DELEGATE_LOG(Info, "TensorRT warns: %s", message);
        break;
      case abi::Severity::kInfo:
        DELEGATE_LOG(Debug, "TensorRT: %s", message);
        break;
      default:
        break;
    }
  }
};

struct Reason {
  std::string text;
  int32_t count = 0;
  int32_t last_code = kUnspecifiedError;
};

thread_local Reason reason;

// The counters that TensorRT reads back are those of the calling thread: a load on one thread must not take
// the errors of another for its own.
class ErrorRecorder final : public abi::ErrorRecorderInterface {
 public:
  abi::InterfaceInfo interface_info() const noexcept override { return {"IErrorRecorder", 1, 0}; }
  int32_t error_count() const noexcept override { return reason.count; }
  int32_t error_code(int32_t index) const noexcept override {
    return index >= 0 && index < reason.count ? reason.last_code : kUnspecifiedError;
  }
  const char* error_text(int32_t index) const noexcept override {
    return index >= 0 && index < reason.count ? reason.text.c_str() : "";
  }
  bool has_overflowed() const noexcept override { return reason.text.size() >= kReasonLimit; }
  void clear() noexcept override { reason = Reason{}; }

  bool report(int32_t code, const char* text) noexcept override {
    ++reason.count;
    reason.last_code = code;
    try {
      if (reason.text.size() < kReasonLimit) {
        reason.text += (reason.text.empty() ? "" : "; ") + std::string(text == nullptr ? "" : text);
      }
    } catch (...) {  // out of host memory: the count still tells that something failed
    }
    return false;
  }

  int32_t add_reference() noexcept override { return ++references_; }
  int32_t drop_reference() noexcept override { return --references_; }

 private:
  std::atomic<int32_t> references_{0};
};

}  // namespace

// Both are never destroyed: TensorRT may call them while the process ends.
abi::LoggerInterface& logger() {
  static auto* const instance = new Logger;
  return *instance;
}

abi::ErrorRecorderInterface& error_recorder() {
  static auto* const instance = new ErrorRecorder;
  return *instance;
}

std::string take_reason() {
  std::string text = std::move(reason.text);
  reason = Reason{};
  return text;
}

}  // namespace executorch::backends::tensorrt
