#include "log/log.h"

#include <cstdarg>
#include <cstdio>
#include <string>

namespace executorch::backends::tensorrt {

namespace {

std::string format_line(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace

void log_line(et_pal_log_level_t level, const char* file, size_t line, const char* format, ...) {
  // The runtime's own threshold: its wheel is built without debug lines.
  if (level == kDebug && runtime::LogLevel::ET_MIN_LOG_LEVEL > runtime::LogLevel::Debug) {
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  const std::string text = format_line(format, arguments);
  va_end(arguments);
  runtime::pal_emit_log_message(runtime::internal::get_log_timestamp(), level, file, "", line, text.data(),
                                text.size());
}

}  // namespace executorch::backends::tensorrt
