// What a delegate does on a stream that its caller captures into a CUDA graph of its own.

#include <gtest/gtest.h>

#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;

FakeEngine add_one(size_t scratch_bytes = 0) {
  FakeEngine engine;
  engine.input("x", "float32", {2})
      .output("y", "float32", {2})
      .linear("y", {"x"}, {}, 1)
      .engine_property("scratch_bytes", std::to_string(scratch_bytes));
  return engine;
}

/// A stream that is the caller's, with tensors on the GPU.
class CallerCapture : public FakeMachine {
 protected:
  void SetUp() override {
    FakeMachine::SetUp();
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    tensorrt_executorch_set_caller_stream(stream_);
  }
  void TearDown() override {
    tensorrt_executorch_clear_caller_stream();
    cudaStreamDestroy(stream_);
    FakeMachine::TearDown();
  }

  Error run(Delegate& delegate) { return delegate.run({in_.get(), out_.get()}); }

  cudaGraphExec_t captured(Delegate& delegate) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    EXPECT_EQ(run(delegate), Error::Ok);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    return ready;
  }

  cudaStream_t stream_ = nullptr;
  Memory<float> x_{Memory<float>::Kind::kManaged, {1, 2}};
  Memory<float> y_{Memory<float>::Kind::kManaged, {0, 0}};
  executorch::extension::TensorPtr in_ = executorch::extension::make_tensor_ptr({2}, x_.data());
  executorch::extension::TensorPtr out_ = executorch::extension::make_tensor_ptr({2}, y_.data());
};

TEST_F(CallerCapture, RunsWithTheCallersGraph) {
  auto delegate = Delegate::load(add_one());
  ASSERT_TRUE(delegate.ok());
  cudaGraphExec_t graph = captured(*delegate);
  EXPECT_EQ(y_.data()[0], 0) << "nothing ran while it was captured";
  cudaGraphLaunch(graph, stream_);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(y_.data()[0], 2);
  cudaGraphExecDestroy(graph);
}

// What is refused is refused before anything is queued, so the caller may go on capturing.
TEST_F(CallerCapture, SurvivesACallThatIsRefused) {
  auto delegate = Delegate::load(add_one());
  ASSERT_TRUE(delegate.ok());
  TestTensor<int64_t> wrong_type({2}, {1, 2});
  TestTensor<float> wrong_shape({3}, {1, 2, 3});
  const long waits = fake_cuda_count("host_waits");
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(delegate->run({wrong_type, out_.get()}), Error::InvalidArgument);
  EXPECT_EQ(delegate->run({wrong_shape, out_.get()}), Error::InvalidArgument);
  EXPECT_EQ(delegate->run({in_.get(), wrong_type}), Error::InvalidArgument);
  EXPECT_EQ(run(*delegate), Error::Ok);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(fake_cuda_count("host_waits"), waits);
  cudaGraphDestroy(graph);
}

TEST_F(CallerCapture, LeavesTheDelegateUsableOnOtherStreams) {
  auto delegate = Delegate::load(add_one());
  ASSERT_TRUE(delegate.ok());
  ASSERT_EQ(run(*delegate), Error::Ok);  // in flight when another stream's capture begins
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  std::swap(stream_, other);
  tensorrt_executorch_set_caller_stream(stream_);
  cudaGraphExec_t graph = captured(*delegate);
  std::swap(stream_, other);
  tensorrt_executorch_set_caller_stream(stream_);
  EXPECT_EQ(run(*delegate), Error::Ok);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(y_.data()[1], 3);
  cudaGraphExecDestroy(graph);
  cudaStreamDestroy(other);
}

TEST_F(CallerCapture, IsNotReplayedIntoIt) {
  LoadRequest request;
  request.options.push_back(option("use_cuda_graphs", true));
  auto delegate = Delegate::load(add_one(), request);
  ASSERT_TRUE(delegate.ok());
  for (int call = 0; call < 3; ++call) {
    ASSERT_EQ(run(*delegate), Error::Ok);
  }
  const auto launches = fake_cuda_count("graph_launches");
  cudaGraphExec_t graph = captured(*delegate);
  EXPECT_EQ(fake_cuda_count("graph_launches"), launches);
  y_.data()[0] = 0;
  cudaGraphLaunch(graph, stream_);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(y_.data()[0], 2);
  cudaGraphExecDestroy(graph);
}

TEST_F(CallerCapture, IsRefusedInSharedScratch) {
  LoadRequest request;
  request.options.push_back(option("use_shared_activation_scratch", true));
  auto delegate = Delegate::load(add_one(512), request);
  ASSERT_TRUE(delegate.ok());
  const CapturedLog log;
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(run(*delegate), Error::NotSupported);
  cudaStreamEndCapture(stream_, &graph);
  if (graph != nullptr) {
    cudaGraphDestroy(graph);
  }
  cudaGetLastError();
  EXPECT_TRUE(
      log.contains("the caller captures its stream, but this engine takes turns in the shared scratch"))
      << log.text();
  EXPECT_TRUE(log.contains("use_shared_activation_scratch off")) << log.text();
  EXPECT_EQ(run(*delegate), Error::Ok) << "the next call works";
  cudaStreamSynchronize(stream_);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
