// Every call of CUDA and TensorRT fails once. Whatever it is: an error and a sentence, nothing left behind,
// the caller's device current, and the next attempt works.

#include <gtest/gtest.h>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Floats = TestTensor<float>;

/// An engine with everything that needs a call: weights, scratch, a dynamic input, two outputs, on the second
/// GPU.
FakeEngine everything() {
  FakeEngine engine;
  engine.input("x", "float32", {-1, 2}, {{{1, 2}, {4, 2}}}).input("w", "float32", {2});
  engine.output("y", "float32", {-1, 2}).output("v", "float32", {2});
  engine.linear("y", {"x"}, {}, 1).linear("v", {"w"}, {2});
  engine.engine_property("weight_bytes", "100").engine_property("scratch_bytes", "256");
  engine.engine_property("streamable_bytes", "64").device(1);
  return engine;
}

class Failures : public FakeMachine {
 protected:
  void SetUp() override {
    FakeMachine::SetUp();
    ASSERT_TRUE(Delegate::load(everything()).ok());  // what is made once per process is made now
  }

  static Error run_once(Delegate& delegate) {
    Floats x({2, 2}, {1, 2, 3, 4});
    Floats w(Floats::Kind::kDevice, {2}, {5, 6}, 1);
    Floats y(Floats::Kind::kPinned, {4, 2}, std::vector<float>(8));
    Floats v(Floats::Kind::kDevice, {2}, {0, 0}, 1, 16);
    // Only the delegate's calls count, not those of the tensors above.
    const long armed = pending_failure_;
    fake_cuda_fail(nullptr, armed, cudaErrorLaunchFailure);
    first_call_ = fake_cuda_count("calls");
    const Error error = delegate.run({x, w, y, v});
    calls_ = fake_cuda_count("calls") - first_call_;
    failed_ = fake_cuda_failed() != 0;
    fake_cuda_fail(nullptr, 0, cudaSuccess);
    if (error == Error::Ok) {
      EXPECT_EQ(y.values(), (std::vector<float>{2, 3, 4, 5}));
      EXPECT_EQ(v.values(), (std::vector<float>{10, 12}));
    }
    return error;
  }

  static inline long pending_failure_ = 0;
  static inline long first_call_ = 0;
  static inline long calls_ = 0;
  static inline bool failed_ = false;
};

TEST_F(Failures, OfEveryCallDuringALoad) {
  for (const cudaError_t failure : {cudaErrorLaunchFailure, cudaErrorMemoryAllocation}) {
    const long before = fake_cuda_count("calls");
    {
      const auto counted = Delegate::load(everything());
    }
    const long calls = fake_cuda_count("calls") - before;
    ASSERT_GT(calls, 5);
    for (long n = 1; n <= calls; ++n) {
      const long live = fake_cuda_count("live.tensorrt_engines");
      const CapturedLog log;
      fake_cuda_fail(nullptr, n, failure);
      {
        const auto delegate = Delegate::load(everything());
        // The last calls are those of the destruction, which reports and goes on.
        EXPECT_TRUE(delegate.ok() || !log.errors().empty()) << "call " << n << " failed without a sentence";
      }
      EXPECT_TRUE(fake_cuda_failed()) << n;
      fake_cuda_fail(nullptr, 0, cudaSuccess);
      EXPECT_EQ(fake_cuda_count("live.tensorrt_engines"), live) << n;
      int device = -1;
      cudaGetDevice(&device);
      cudaSetDevice(0);
      // Only the call that restores the device may fail to do so.
      if (device != 0) {
        EXPECT_TRUE(log.contains("restoring the caller's device")) << "call " << n << ": " << log.text();
      }
    }
  }
  auto delegate = Delegate::load(everything());
  ASSERT_TRUE(delegate.ok());
  pending_failure_ = 0;
  EXPECT_EQ(run_once(*delegate), Error::Ok);
}

TEST_F(Failures, OfEveryCallDuringARun) {
  pending_failure_ = 0;
  // The first run of a process also finds functions of the driver; the second one's calls are counted.
  for (int run = 0; run < 2; ++run) {
    auto delegate = Delegate::load(everything());
    ASSERT_TRUE(delegate.ok());
    ASSERT_EQ(run_once(*delegate), Error::Ok);
  }
  const long calls = calls_;
  ASSERT_GT(calls, 10);
  for (long n = 1; n <= calls; ++n) {
    auto delegate = Delegate::load(everything());  // a fresh one: the first run makes the most calls
    ASSERT_TRUE(delegate.ok());
    {
      const CapturedLog log;
      pending_failure_ = n;
      const Error error = run_once(*delegate);
      EXPECT_TRUE(failed_) << n;
      EXPECT_FALSE(log.errors().empty()) << "call " << n << " failed without a sentence";
      if (error == Error::Ok) {
        EXPECT_TRUE(log.contains("restoring the caller's device")) << "call " << n << ": " << log.text();
      }
    }
    cudaSetDevice(0);
    EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaSuccess) << "call " << n << " left work running";
    pending_failure_ = 0;
    EXPECT_EQ(run_once(*delegate), Error::Ok) << "after the failure of call " << n;
    EXPECT_EQ(run_once(*delegate), Error::Ok) << "again, after the failure of call " << n;
  }
}

TEST_F(Failures, OfACallLeaveNoStickyError) {
  auto delegate = Delegate::load(everything());
  ASSERT_TRUE(delegate.ok());
  const CapturedLog log;
  Floats x({2, 2}, {1, 2, 3, 4});
  Floats w({2}, {5, 6});
  Floats y({4, 2}, std::vector<float>(8));
  Floats v({2}, {0, 0});
  fake_cuda_fail("cudaMallocHost", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(delegate->run({x, w, y, v}), Error::MemoryAllocationFailed);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_TRUE(log.contains("cudaMallocHost failed: out of memory (cudaErrorMemoryAllocation)")) << log.text();
}

// The work was queued when the copy behind it failed; the caller may free its tensors now.
TEST_F(Failures, AfterTheLaunchWaitForTheWork) {
  auto delegate = Delegate::load(everything());
  ASSERT_TRUE(delegate.ok());
  Floats w({2}, {5, 6});
  Floats v({2}, {0, 0});
  for (const long nth : {3, 4}) {  // two copies in, two copies out
    {
      Floats x(Floats::Kind::kPinned, {2, 2}, {1, 2, 3, 4});
      Floats y(Floats::Kind::kPinned, {4, 2}, std::vector<float>(8));
      const CapturedLog log;
      fake_cuda_fail("cudaMemcpyAsync", nth, cudaErrorInvalidValue);
      EXPECT_EQ(delegate->run({x, w, y, v}), Error::Internal);
      EXPECT_TRUE(fake_cuda_failed());
      cudaSetDevice(1);
      EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaSuccess);
      cudaSetDevice(0);
    }
    pending_failure_ = 0;
    EXPECT_EQ(run_once(*delegate), Error::Ok);
  }
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
