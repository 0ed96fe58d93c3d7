#pragma once

#include <filesystem>
#include <string>

namespace executorch::backends::tensorrt::testing {

/// A folder that is gone, with all that is in it, at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace executorch::backends::tensorrt::testing
