#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "fake_cudart.h"
#include "tests/cpp/support/temporary_folder.h"

namespace executorch::backends::tensorrt::testing {

/// Path of a fake library, such as "libtensorrt_rtx.so.1" or "rtx-1.4/libtensorrt_rtx.so.1".
std::string fake_library(const std::string& file);

/// Two fake GPUs, and the delegate told to use the fake TensorRT-RTX 1.6 and TensorRT 11.4. At the end of
/// each test: nothing was used wrongly, nothing is left that was not there before, and the current device is
/// what it was.
class FakeMachine : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const std::filesystem::path& kernel_folder() const { return kernels_.path(); }

 private:
  TemporaryFolder kernels_;
  std::map<std::string, long> live_before_;
};

}  // namespace executorch::backends::tensorrt::testing
