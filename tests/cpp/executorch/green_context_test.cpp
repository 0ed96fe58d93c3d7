// Streams of green contexts: everything that an engine queues stays in the caller's part of the GPU.

#include <gtest/gtest.h>

#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Floats = TestTensor<float>;

void* green_context(uintptr_t number) { return reinterpret_cast<void*>(number); }

/// A stream in a green context, on which the delegate runs while this lives.
class GreenStream {
 public:
  explicit GreenStream(void* context) {
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    fake_cuda_set_green_context(stream_, context);
    tensorrt_executorch_set_caller_stream(stream_);
  }
  ~GreenStream() {
    tensorrt_executorch_clear_caller_stream();
    cudaStreamDestroy(stream_);
  }
  GreenStream(const GreenStream&) = delete;
  GreenStream& operator=(const GreenStream&) = delete;
  void wait() const { cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

FakeEngine with_auxiliary_streams(const char* count = "2") {
  FakeEngine engine;
  engine.input("x", "float32", {2}).output("y", "float32", {2}).linear("y", {"x"}, {1}, 1);
  engine.engine_property("auxiliary_streams", count);
  return engine;
}

/// That the machine saw nothing leave a green context is checked at the end of each test.
class GreenContexts : public FakeMachine {
 protected:
  /// Runs the engine, which adds 1, on host tensors, so that the call ends with its results there.
  static void expect_right(Delegate& delegate) {
    Floats x({2}, {1, 2});
    Floats y({2}, {0, 0});
    ASSERT_EQ(delegate.run({x, y}), Error::Ok);
    EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
  }
  static void expect_refused(Delegate& delegate) {
    Floats x({2}, {1, 2});
    Floats y({2}, {0, 0});
    EXPECT_EQ(delegate.run({x, y}), Error::Internal);
  }
  static long made() { return fake_cuda_count("calls.cuGreenCtxStreamCreate"); }
};

TEST_F(GreenContexts, HoldTheAuxiliaryStreamsOfAnEngine) {
  auto delegate = Delegate::load(with_auxiliary_streams());
  ASSERT_TRUE(delegate.ok());
  expect_right(*delegate);
  EXPECT_EQ(made(), 0) << "TensorRT has its own on ordinary streams";
  const GreenStream green(green_context(0x77));
  for (int call = 0; call < 3; ++call) {
    expect_right(*delegate);
  }
  EXPECT_EQ(made(), 2) << "made once for all calls";
}

TEST_F(GreenContexts, GiveWayToOthersAndToOrdinaryStreams) {
  auto delegate = Delegate::load(with_auxiliary_streams());
  ASSERT_TRUE(delegate.ok());
  const long streams = fake_cuda_count("live.streams");
  for (const uintptr_t number : {0x77, 0x88, 0x77}) {
    const GreenStream green(green_context(number));
    expect_right(*delegate);
  }
  EXPECT_EQ(made(), 6);
  expect_right(*delegate);
  EXPECT_LE(fake_cuda_count("live.streams") - streams, 3)
      << "TensorRT's own two and the thread's; no green ones are kept";
}

TEST_F(GreenContexts, AreToldApartWhenOneTakesTheAddressOfAnother) {
  auto plain = Delegate::load(with_auxiliary_streams());
  auto replayed = Delegate::load(with_auxiliary_streams(), with_graphs());
  ASSERT_TRUE(plain.ok() && replayed.ok());
  for (int round = 0; round < 3; ++round) {
    const GreenStream green(green_context(0x77));
    const long launches = fake_cuda_count("graph_launches");
    expect_right(*plain);
    expect_right(*replayed);
    EXPECT_EQ(fake_cuda_count("graph_launches"), launches) << "no graph of a destroyed green context";
    expect_right(*replayed);
    fake_cuda_replace_green_context(green_context(0x77));
  }
}

TEST_F(GreenContexts, HoldWhatIsCaptured) {
  auto delegate = Delegate::load(with_auxiliary_streams(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  const GreenStream green(green_context(0x77));
  Floats x(Floats::Kind::kDevice, {2}, {1, 2});
  Floats y(Floats::Kind::kDevice, {2}, {0, 0});
  for (int call = 0; call < 4; ++call) {
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  }
  green.wait();
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
  EXPECT_EQ(fake_cuda_count("graph_launches"), 3);
}

TEST_F(GreenContexts, HoldEnginesThatTakeTurnsInOneContext) {
  LoadRequest shared;
  shared.options = {option("use_shared_activation_scratch", true)};
  FakeEngine engine = with_auxiliary_streams();
  engine.engine_property("scratch_bytes", "1024");
  auto first = Delegate::load(engine, shared);
  auto second = Delegate::load(engine, shared);
  ASSERT_TRUE(first.ok() && second.ok());
  for (int round = 0; round < 2; ++round) {
    expect_right(*first);
    const GreenStream green(green_context(0x77));
    expect_right(*second);
  }
}

TEST_F(GreenContexts, NeedNothingForEnginesWithoutAuxiliaryStreams) {
  auto delegate = Delegate::load(with_auxiliary_streams("0"));
  ASSERT_TRUE(delegate.ok());
  const GreenStream green(green_context(0x77));
  expect_right(*delegate);
  EXPECT_EQ(made(), 0);
}

TEST_F(GreenContexts, WithoutRoomForAnotherStreamSayWhatToDo) {
  auto delegate = Delegate::load(with_auxiliary_streams());
  ASSERT_TRUE(delegate.ok());
  const GreenStream green(green_context(0x77));
  const CapturedLog log;
  for (const int failing : {1, 2}) {
    fake_cuda_fail("cuGreenCtxStreamCreate", failing, cudaErrorMemoryAllocation);
    expect_refused(*delegate);
  }
  EXPECT_TRUE(log.contains("cuGreenCtxStreamCreate failed (CUresult 2). Free device memory")) << log.text();
  expect_right(*delegate);
}

TEST_F(GreenContexts, SayWhatTensorRTHasAgainstTheirStreams) {
  auto delegate = Delegate::load(with_auxiliary_streams());
  ASSERT_TRUE(delegate.ok());
  const GreenStream green(green_context(0x77));
  const CapturedLog log;
  fake_cuda_fail("tensorrt.set_auxiliary_streams", 1, cudaErrorUnknown);
  expect_refused(*delegate);
  EXPECT_TRUE(log.contains(
      "TensorRT refused 2 auxiliary streams of the caller's green context. TensorRT says: injected"))
      << log.text();
  EXPECT_TRUE(log.contains("Run on an ordinary stream.")) << log.text();
  expect_right(*delegate);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
