// Replay as CUDA graphs: when, and that a replay always computes with this call's data.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Floats = TestTensor<float>;

class Graphs : public FakeMachine {
 protected:
  static long launches() { return fake_cuda_count("graph_launches"); }
  static long kernels() { return fake_cuda_count("kernels"); }
};

TEST_F(Graphs, RunPlainlyOnceThenCaptureThenReplay) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  Floats x(Floats::Kind::kManaged, {2}, {0, 0});
  Floats y(Floats::Kind::kManaged, {2}, {0, 0});
  for (int call = 0; call < 6; ++call) {
    x.data()[0] = static_cast<float>(call);
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    EXPECT_EQ(y.data()[0], static_cast<float>(call) + 1) << "a replay sees this call's input";
  }
  EXPECT_EQ(launches(), 5);
  EXPECT_EQ(kernels(), 2) << "one plain, one into the capture";
}

TEST_F(Graphs, AreNotMadeUnlessAskedFor) {
  auto delegate = Delegate::load(add_one_to_up_to_8());
  ASSERT_TRUE(delegate.ok());
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  for (int call = 0; call < 4; ++call) {
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  }
  EXPECT_EQ(launches(), 0);
}

TEST_F(Graphs, SeeAlternatingInputsShapesAndAddresses) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  Floats a(Floats::Kind::kDevice, {2}, {10, 20});
  Floats b(Floats::Kind::kDevice, {3}, {30, 40, 50});
  Floats host({4}, {1, 2, 3, 4});
  Floats y_a(Floats::Kind::kDevice, {2}, {0, 0});
  Floats y({8}, std::vector<float>(8));
  for (int round = 0; round < 5; ++round) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      ASSERT_EQ(delegate->run({a, y_a}), Error::Ok);
      EXPECT_EQ(y_a.values(), (std::vector<float>{11, 21}));
      ASSERT_EQ(delegate->run({b, y}), Error::Ok);
      EXPECT_EQ(y.values(), (std::vector<float>{31, 41, 51}));
      host.data()[0] = static_cast<float>(round);
      ASSERT_EQ(delegate->run({host, y}), Error::Ok);
      EXPECT_EQ(y.values(), (std::vector<float>{static_cast<float>(round) + 1, 3, 4, 5}));
    }
  }
  EXPECT_GT(launches(), 20);
}

TEST_F(Graphs, SeeOtherShapesInTheSameMemory) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  Memory<float> in(Memory<float>::Kind::kManaged, {1, 2, 3, 4});
  Memory<float> out(Memory<float>::Kind::kManaged, {0, 0, 0, 0});
  for (int call = 0; call < 12; ++call) {
    const SizesType size = 1 + call % 4;
    auto x = executorch::extension::make_tensor_ptr({size}, in.data());
    auto y = executorch::extension::make_tensor_ptr({size}, out.data());
    std::fill(out.data(), out.data() + 4, 0.f);
    ASSERT_EQ(delegate->run({x.get(), y.get()}), Error::Ok);
    std::vector<float> expected = {2, 3, 4, 5};
    std::fill(expected.begin() + size, expected.end(), 0.f);
    EXPECT_EQ(out.values(), expected) << "call " << call;
  }
}

TEST_F(Graphs, FallBackToThePlainWayAndSayWhyOnce) {
  for (const char* call :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphGetNodes"}) {
    auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
    ASSERT_TRUE(delegate.ok());
    Floats x(Floats::Kind::kDevice, {2}, {1, 2});
    Floats y(Floats::Kind::kDevice, {2}, {0, 0});
    const CapturedLog log;
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    fake_cuda_fail(call, 1, cudaErrorStreamCaptureInvalidated);
    const long before = launches();
    for (int repeat = 0; repeat < 4; ++repeat) {
      ASSERT_EQ(delegate->run({x, y}), Error::Ok) << call << ": " << log.text();
      EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
    }
    EXPECT_TRUE(fake_cuda_failed());
    EXPECT_EQ(launches(), before) << call;
    EXPECT_TRUE(log.contains("no CUDA graph for this call, which runs plainly")) << log.text();
  }
}

TEST_F(Graphs, ReportALaunchThatFails) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  Floats x(Floats::Kind::kDevice, {2}, {1, 2});
  Floats y(Floats::Kind::kDevice, {2}, {0, 0});
  for (int repeat = 0; repeat < 3; ++repeat) {
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  }
  const CapturedLog log;
  fake_cuda_fail("cudaGraphLaunch", 1, cudaErrorLaunchFailure);
  EXPECT_EQ(delegate->run({x, y}), Error::Internal);
  EXPECT_TRUE(log.contains("cudaGraphLaunch failed")) << log.text();
  EXPECT_EQ(delegate->run({x, y}), Error::Ok);
}

TEST_F(Graphs, WorkOnTheSecondGpu) {
  auto delegate = Delegate::load(add_one_to_up_to_8(1), with_graphs());
  ASSERT_TRUE(delegate.ok());
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  for (int call = 0; call < 4; ++call) {
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
  }
  EXPECT_EQ(launches(), 3);
}

// A graph is confined to the multiprocessors of the stream that it was captured on.
TEST_F(Graphs, OfOneGreenContextAreNotReplayedOnAnother) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  cudaStream_t green = nullptr;
  cudaStreamCreateWithFlags(&green, cudaStreamNonBlocking);
  fake_cuda_set_green_context(green, reinterpret_cast<void*>(0x77));
  Floats x(Floats::Kind::kDevice, {2}, {1, 2});
  Floats y(Floats::Kind::kDevice, {2}, {0, 0});
  for (int call = 0; call < 3; ++call) {
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  }
  const long before = launches();
  tensorrt_executorch_set_caller_stream(green);
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(launches(), before) << "plain: this partition has no graph yet";
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(launches(), before + 2);
  tensorrt_executorch_clear_caller_stream();
  cudaStreamSynchronize(green);
  cudaStreamDestroy(green);
}

TEST_F(Graphs, OutliveNothingThatTheyUse) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  Floats y(Floats::Kind::kDevice, {2}, {0, 0});
  for (int call = 0; call < 40; ++call) {  // more addresses than graphs are kept
    Floats x(Floats::Kind::kDevice, {2}, {static_cast<float>(call), 0});
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    EXPECT_EQ(y.values()[0], static_cast<float>(call) + 1);
  }
  EXPECT_LE(fake_cuda_count("live.graphs"), 8);
}

TEST_F(Graphs, MayBeCapturedWhileOtherThreadsWork) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      auto delegate = Delegate::load(add_one_to_up_to_8(t % 2), with_graphs());
      ASSERT_TRUE(delegate.ok());
      for (int call = 0; call < 30; ++call) {
        Floats x({2}, {static_cast<float>(call), static_cast<float>(t)});
        Floats y({2}, {0, 0});
        ASSERT_EQ(delegate->run({x, y}), Error::Ok);
        ASSERT_EQ(y.values(), (std::vector<float>{static_cast<float>(call) + 1, static_cast<float>(t) + 1}));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
