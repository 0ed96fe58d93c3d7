// On which stream work goes, and when a call may return. The fake's work is deferred, so a missing wait
// shows.

#include <gtest/gtest.h>

#include <thread>

#include <executorch/runtime/core/device_allocator.h>

#include "executorch/c_api.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Floats = TestTensor<float>;

class Stream {
 public:
  Stream() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// As the installed header's guard does.
class CallerStream {
 public:
  explicit CallerStream(cudaStream_t stream) { tensorrt_executorch_set_caller_stream(stream); }
  ~CallerStream() { tensorrt_executorch_clear_caller_stream(); }
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;
};

bool pending(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaErrorNotReady; }

FakeEngine add_one() {
  FakeEngine engine;
  engine.input("x", "float32", {2}).output("y", "float32", {2}).linear("y", {"x"}, {}, 1);
  return engine;
}

class Streams : public FakeMachine {
 protected:
  void SetUp() override {
    FakeMachine::SetUp();
    auto loaded = Delegate::load(add_one());
    ASSERT_TRUE(loaded.ok());
    delegate_ = std::make_unique<Delegate>(std::move(*loaded));
  }
  void TearDown() override {
    delegate_.reset();
    EXPECT_EQ(fake_cuda_count("legacy_stream_work"), legacy_);
    FakeMachine::TearDown();
  }
  std::unique_ptr<Delegate> delegate_;
  long legacy_ = 0;
};

TEST_F(Streams, WithoutACallersStreamResultsAreThereOnReturn) {
  float* x = nullptr;
  float* y = nullptr;
  cudaMallocManaged(reinterpret_cast<void**>(&x), 8, cudaMemAttachGlobal);
  cudaMallocManaged(reinterpret_cast<void**>(&y), 8, cudaMemAttachGlobal);
  x[0] = 1;
  x[1] = 2;
  auto in = executorch::extension::make_tensor_ptr({2}, x);
  auto out = executorch::extension::make_tensor_ptr({2}, y);
  ASSERT_EQ(delegate_->run({in.get(), out.get()}), Error::Ok);
  EXPECT_EQ(y[0], 2);
  EXPECT_EQ(y[1], 3);
  cudaFree(x);
  cudaFree(y);
}

// What reads them, a copy or another engine, follows on the same stream.
TEST_F(Streams, ResultsThatAreReadInOrderAreNotWaitedFor) {
  LoadRequest request;
  request.compile_specs = {{"results_in_stream_order", "1"}};
  auto ordered = Delegate::load(add_one(), request);
  ASSERT_TRUE(ordered.ok());
  Memory<float> x(Memory<float>::Kind::kManaged, {1, 2});
  Memory<float> y(Memory<float>::Kind::kManaged, {0, 0});
  auto in = executorch::extension::make_tensor_ptr({2}, x.data());
  auto out = executorch::extension::make_tensor_ptr({2}, y.data());
  const long waits = fake_cuda_count("host_waits");
  ASSERT_EQ(ordered->run({in.get(), out.get()}), Error::Ok);
  ASSERT_EQ(delegate_->run({out.get(), in.get()}), Error::Ok);
  EXPECT_EQ(fake_cuda_count("host_waits"), waits + 1) << "the second is read by whoever, so it is waited for";
  EXPECT_EQ(x.data()[0], 3);
  ASSERT_EQ(ordered->run({in.get(), out.get()}), Error::Ok);
  EXPECT_EQ(y.data()[0], 2) << "queued, not run";
  float host[2] = {};
  ASSERT_EQ(executorch::runtime::get_device_allocator(executorch::runtime::etensor::DeviceType::CUDA)
                ->copy_device_to_host(host, y.data(), sizeof(host), 0),
            Error::Ok);
  EXPECT_EQ(host[0], 4);
}

TEST_F(Streams, HostResultsAreWaitedForInOrderToo) {
  LoadRequest request;
  request.compile_specs = {{"results_in_stream_order", "1"}};
  auto ordered = Delegate::load(add_one(), request);
  ASSERT_TRUE(ordered.ok());
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  ASSERT_EQ(ordered->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
}

TEST_F(Streams, DeviceCallsOnACallersStreamDoNotWait) {
  const Stream stream;
  Memory<float> x(Memory<float>::Kind::kManaged, {1, 2});
  Memory<float> y(Memory<float>::Kind::kManaged, {0, 0});
  auto in = executorch::extension::make_tensor_ptr({2}, x.data());
  auto out = executorch::extension::make_tensor_ptr({2}, y.data());
  {
    const CallerStream scope(stream.get());
    const long waits = fake_cuda_count("host_waits");
    ASSERT_EQ(delegate_->run({in.get(), out.get()}), Error::Ok);
    ASSERT_EQ(delegate_->run({out.get(), in.get()}), Error::Ok);
    EXPECT_EQ(fake_cuda_count("host_waits"), waits);
  }
  EXPECT_EQ(y.data()[0], 0) << "queued, not run";
  EXPECT_TRUE(pending(stream.get()));
  cudaStreamSynchronize(stream.get());
  EXPECT_EQ(x.data()[0], 3) << "both calls, in order";
}

TEST_F(Streams, HostResultsAreWaitedForOnACallersStream) {
  const Stream stream;
  const CallerStream scope(stream.get());
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  ASSERT_EQ(delegate_->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
  EXPECT_FALSE(pending(cudaStreamPerThread));
}

TEST_F(Streams, InputsThatTheCallersStreamStillWritesAreRead) {
  const Stream stream;
  Memory<float> source(Memory<float>::Kind::kPinned, {10, 20});
  Memory<float> x(Memory<float>::Kind::kManaged, {0, 0});
  auto in = executorch::extension::make_tensor_ptr({2}, x.data());
  Floats y({2}, {0, 0});
  cudaMemcpyAsync(x.data(), source.data(), 8, cudaMemcpyDefault, stream.get());
  const CallerStream scope(stream.get());
  ASSERT_EQ(delegate_->run({in.get(), y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{11, 21}));
}

TEST_F(Streams, AnotherStreamWaitsForTheCallBefore) {
  const Stream first;
  const Stream second;
  Memory<float> x(Memory<float>::Kind::kManaged, {1, 2});
  Memory<float> y(Memory<float>::Kind::kManaged, {0, 0});
  auto in = executorch::extension::make_tensor_ptr({2}, x.data());
  auto out = executorch::extension::make_tensor_ptr({2}, y.data());
  {
    const CallerStream scope(first.get());
    ASSERT_EQ(delegate_->run({in.get(), out.get()}), Error::Ok);
  }
  {
    const CallerStream scope(second.get());
    ASSERT_EQ(delegate_->run({out.get(), in.get()}), Error::Ok);
  }
  cudaStreamSynchronize(second.get());
  EXPECT_EQ(x.data()[0], 3) << "the second call's stream has waited for the first's";
}

TEST_F(Streams, StagingIsNotOverwrittenWhileACallIsInFlight) {
  const Stream stream;
  const CallerStream scope(stream.get());
  Memory<float> y1(Memory<float>::Kind::kManaged, {0, 0});
  Memory<float> y2(Memory<float>::Kind::kManaged, {0, 0});
  auto out1 = executorch::extension::make_tensor_ptr({2}, y1.data());
  auto out2 = executorch::extension::make_tensor_ptr({2}, y2.data());
  Floats host1({2}, {1, 1});
  Floats host2({2}, {5, 5});
  ASSERT_EQ(delegate_->run({host1, out1.get()}), Error::Ok);
  ASSERT_EQ(delegate_->run({host2, out2.get()}), Error::Ok);
  cudaStreamSynchronize(stream.get());
  EXPECT_EQ(y1.data()[0], 2);
  EXPECT_EQ(y2.data()[0], 6);
}

TEST_F(Streams, APageableInputMayChangeAfterTheCall) {
  const Stream stream;
  const CallerStream scope(stream.get());
  Memory<float> y(Memory<float>::Kind::kManaged, {0, 0});
  auto out = executorch::extension::make_tensor_ptr({2}, y.data());
  Floats host({2}, {1, 1});
  ASSERT_EQ(delegate_->run({host, out.get()}), Error::Ok);
  host.data()[0] = 100;
  cudaStreamSynchronize(stream.get());
  EXPECT_EQ(y.data()[0], 2);
}

TEST_F(Streams, DestroyingWaitsForWorkInFlight) {
  const Stream stream;
  Memory<float> y(Memory<float>::Kind::kManaged, {0, 0});
  auto out = executorch::extension::make_tensor_ptr({2}, y.data());
  Floats host({2}, {1, 1});
  {
    const CallerStream scope(stream.get());
    ASSERT_EQ(delegate_->run({host, out.get()}), Error::Ok);
  }
  delegate_.reset();
  EXPECT_EQ(y.data()[0], 2);
}

TEST_F(Streams, TheLegacyStreamIsUsedOnlyWhenAskedFor) {
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  ASSERT_EQ(delegate_->run({x, y}), Error::Ok);
  EXPECT_EQ(fake_cuda_count("legacy_stream_work"), 0);
  {
    const CallerStream scope(nullptr);  // null is a stream like any other
    ASSERT_EQ(delegate_->run({x, y}), Error::Ok);
  }
  EXPECT_GT(fake_cuda_count("legacy_stream_work"), 0);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
  legacy_ = fake_cuda_count("legacy_stream_work");
}

TEST_F(Streams, ACallersStreamBelongsToItsThread) {
  const Stream stream;
  const CallerStream scope(stream.get());
  void* seen = nullptr;
  std::thread([&] { EXPECT_FALSE(tensorrt_executorch_get_caller_stream(&seen)); }).join();
  EXPECT_TRUE(tensorrt_executorch_get_caller_stream(&seen));
  EXPECT_EQ(seen, static_cast<void*>(stream.get()));
}

TEST_F(Streams, AFailureOfTheEnginesWorkIsReported) {
  Floats x(Floats::Kind::kDevice, {2}, {1, 2});
  Floats y({2}, {0, 0});
  fake_cuda_fail_work(cudaErrorIllegalAddress);
  EXPECT_EQ(delegate_->run({x, y}), Error::Internal);
  EXPECT_EQ(delegate_->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
  legacy_ = fake_cuda_count("legacy_stream_work");  // the test's own copies
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
