#pragma once

#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

namespace executorch::backends::tensorrt {

/// Sends one line of any length to ExecuTorch's log. Use `DELEGATE_LOG`.
__attribute__((format(printf, 4, 5))) void log_line(et_pal_log_level_t level, const char* file, size_t line,
                                                    const char* format, ...);

}  // namespace executorch::backends::tensorrt

/// As `ET_LOG`, which cuts a line at 256 bytes: a refusal that lists where it looked, or TensorRT's own
/// reason, is longer.
#define DELEGATE_LOG(level, ...) \
  ::executorch::backends::tensorrt::log_line(k##level, ET_SHORT_FILENAME, ET_LINE, __VA_ARGS__)
