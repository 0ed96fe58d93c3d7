#include "tests/cpp/support/captured_log.h"

#include <cstdio>
#include <mutex>

#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

namespace executorch::backends::tensorrt::testing {

namespace {

struct Line {
  char level;
  std::string message;
};

struct Sink {
  std::mutex mutex;
  std::vector<Line> lines;
  bool capturing = false;
};

// Never destroyed: a static destructor elsewhere may still log.
Sink& sink() {
  static Sink* instance = new Sink;
  return *instance;
}

void emit(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t, const char* message,
          size_t length) {
  const std::lock_guard<std::mutex> lock(sink().mutex);
  if (sink().capturing) {
    sink().lines.push_back({static_cast<char>(level), std::string(message, length)});
  } else {
    std::fprintf(stderr, "%c %.*s\n", static_cast<char>(level), static_cast<int>(length), message);
  }
}

void register_once() {
  static const bool registered = [] {
    executorch::runtime::runtime_init();
    return executorch::runtime::register_pal(executorch::runtime::PalImpl::create(&emit, __FILE__));
  }();
  (void)registered;
}

}  // namespace

CapturedLog::CapturedLog() {
  register_once();
  const std::lock_guard<std::mutex> lock(sink().mutex);
  sink().lines.clear();
  sink().capturing = true;
}

CapturedLog::~CapturedLog() {
  const std::lock_guard<std::mutex> lock(sink().mutex);
  sink().capturing = false;
  sink().lines.clear();
}

std::vector<std::string> CapturedLog::errors() const {
  const std::lock_guard<std::mutex> lock(sink().mutex);
  std::vector<std::string> result;
  for (const Line& line : sink().lines) {
    if (line.level == 'E') {
      result.push_back(line.message);
    }
  }
  return result;
}

std::string CapturedLog::text() const {
  const std::lock_guard<std::mutex> lock(sink().mutex);
  std::string result;
  for (const Line& line : sink().lines) {
    result += std::string(1, line.level) + " " + line.message + "\n";
  }
  return result;
}

bool CapturedLog::contains(const std::string& part) const { return text().find(part) != std::string::npos; }

void CapturedLog::clear() {
  const std::lock_guard<std::mutex> lock(sink().mutex);
  sink().lines.clear();
}

}  // namespace executorch::backends::tensorrt::testing
