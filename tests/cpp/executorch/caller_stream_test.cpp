// Which stream is the caller's, whoever says so.

#include "executorch/caller_stream.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "executorch/backends/tensorrt/caller_stream.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

template <class Function>
Function function_of(const char* library, const char* name) {
  void* handle = dlopen(fake_library(std::string("streams/") + library).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, name));
}

class CallerStreams : public FakeMachine {
 protected:
  void SetUp() override {
    FakeMachine::SetUp();
    for (cudaStream_t& stream : streams_) {
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }
  }
  void TearDown() override {
    for (cudaStream_t stream : streams_) {
      cudaStreamDestroy(stream);
    }
    FakeMachine::TearDown();
  }
  static cudaStream_t chosen(int device = 0) { return thread_stream(device).stream.get(); }
  static bool is_chosen_by_caller() { return thread_stream(0).is_callers; }

  cudaStream_t streams_[3] = {};
};

TEST_F(CallerStreams, NobodyChoosesOneAtFirst) {
  EXPECT_EQ(chosen(), cudaStreamPerThread);
  EXPECT_FALSE(is_chosen_by_caller());
}

TEST_F(CallerStreams, GuardsNest) {
  {
    const CallerStreamGuard outer(streams_[0]);
    EXPECT_EQ(chosen(), streams_[0]);
    {
      const CallerStreamGuard inner(nullptr);
      EXPECT_EQ(chosen(), nullptr) << "the legacy stream, explicitly chosen";
      EXPECT_TRUE(is_chosen_by_caller());
    }
    EXPECT_EQ(chosen(), streams_[0]);
  }
  EXPECT_EQ(chosen(), cudaStreamPerThread);
}

TEST_F(CallerStreams, OtherThreadsAreNotConcerned) {
  const CallerStreamGuard guard(streams_[0]);
  std::thread([] { EXPECT_EQ(chosen(), cudaStreamPerThread); }).join();
}

// The library comes into the process after the first call, as it does from Python.
TEST_F(CallerStreams, OfExecuTorchsExtensionCountFirst) {
  EXPECT_EQ(chosen(), cudaStreamPerThread);
  const auto set = function_of<void (*)(int, cudaStream_t)>("libexecutorch_extension_cuda.so",
                                                            "fake_extension_set_stream");
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(chosen(), cudaStreamPerThread);
  const CallerStreamGuard own(streams_[0]);
  EXPECT_EQ(chosen(), streams_[0]);
  set(1, streams_[1]);
  EXPECT_EQ(chosen(), streams_[1]);
  EXPECT_TRUE(is_chosen_by_caller());
  set(1, nullptr);
  EXPECT_EQ(chosen(), nullptr);
  set(0, nullptr);
  EXPECT_EQ(chosen(), streams_[0]);
}

TEST_F(CallerStreams, OfPyTorchCountWhenNobodyChose) {
  const auto set = function_of<void (*)(int32_t, void*)>("libtorch_cuda.so", "fake_torch_set_stream");
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(chosen(), cudaStreamPerThread) << "PyTorch's default stream is in order with it";
  set(1, streams_[2]);
  EXPECT_EQ(chosen(1), streams_[2]);
  EXPECT_EQ(chosen(0), cudaStreamPerThread);
  EXPECT_FALSE(thread_stream(1).is_callers) << "results must be there on return";
  const CallerStreamGuard own(streams_[0]);
  EXPECT_EQ(chosen(1), streams_[0]);
  set(1, nullptr);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
