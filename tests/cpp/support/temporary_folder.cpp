#include "tests/cpp/support/temporary_folder.h"

#include <cstdio>
#include <cstdlib>

namespace executorch::backends::tensorrt::testing {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "delegate_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    std::perror("mkdtemp");
    std::abort();
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace executorch::backends::tensorrt::testing
