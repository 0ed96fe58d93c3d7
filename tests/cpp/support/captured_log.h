#pragma once

#include <string>
#include <vector>

namespace executorch::backends::tensorrt::testing {

/// Collects what ET_LOG emits while it lives, from every thread, instead of printing it. One at a time.
class CapturedLog {
 public:
  CapturedLog();
  ~CapturedLog();
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  /// The lines of level Error, oldest first.
  std::vector<std::string> errors() const;
  /// Every line of every level, one per row.
  std::string text() const;
  bool contains(const std::string& part) const;
  void clear();
};

}  // namespace executorch::backends::tensorrt::testing
