// The owners around CUDA's handles: each acquires, releases, and says what went wrong.

#include <gtest/gtest.h>

#include <cstring>

#include "cuda/buffer.h"
#include "cuda/check.h"
#include "cuda/copy.h"
#include "cuda/device_info.h"
#include "cuda/device_scope.h"
#include "cuda/event.h"
#include "cuda/graph.h"
#include "cuda/green_context.h"
#include "cuda/pointer.h"
#include "cuda/stream.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

static_assert(!std::is_constructible_v<StreamView, int> &&
                  !std::is_constructible_v<StreamView, std::nullptr_t>,
              "the legacy stream must be asked for by type");
static_assert(!std::is_copy_constructible_v<DeviceScope> && !std::is_move_constructible_v<DeviceScope>);
static_assert(!std::is_copy_constructible_v<DeviceBuffer> && std::is_move_constructible_v<DeviceBuffer>);
static_assert(!std::is_copy_constructible_v<Event> && std::is_move_constructible_v<Event>);

class Cuda : public FakeMachine {
 protected:
  static int current() {
    int device = -1;
    cudaGetDevice(&device);
    return device;
  }
};

TEST_F(Cuda, CheckNamesTheCallAndTheCauseAndClearsTheError) {
  const CapturedLog log;
  EXPECT_EQ(check(cudaSuccess, "nothing"), Error::Ok);
  EXPECT_EQ(check(cudaErrorMemoryAllocation, "cudaMalloc"), Error::MemoryAllocationFailed);
  EXPECT_EQ(check(cudaErrorNoDevice, "cudaSetDevice"), Error::NotFound);
  EXPECT_EQ(check(cudaErrorInsufficientDriver, "cudaSetDevice"), Error::NotFound);
  EXPECT_EQ(check(cudaErrorLaunchFailure, "cudaMemcpyAsync"), Error::Internal);
  EXPECT_EQ(log.errors().size(), 4u);
  EXPECT_EQ(log.errors()[0],
            "cudaMalloc failed: out of memory (cudaErrorMemoryAllocation). The GPU is out of memory: free "
            "some, or load "
            "fewer programs.");
  void* block = nullptr;
  fake_cuda_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(check(cudaMalloc(&block, 1), "cudaMalloc"), Error::MemoryAllocationFailed);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(Cuda, DestructorsReportAndGoOnExceptAtExit) {
  const CapturedLog log;
  log_failure(cudaErrorCudartUnloading, "cudaFree");
  EXPECT_TRUE(log.errors().empty());
  log_failure(cudaErrorIllegalAddress, "cudaFree");
  EXPECT_EQ(log.errors(),
            std::vector<std::string>{
                "cudaFree failed: an illegal memory access was encountered (cudaErrorIllegalAddress)."});
}

TEST_F(Cuda, ADeviceScopeRestoresWhatWasCurrent) {
  {
    const DeviceScope scope(1);
    EXPECT_EQ(scope.error(), Error::Ok);
    EXPECT_EQ(current(), 1);
    const DeviceScope inner(0);
    EXPECT_EQ(current(), 0);
  }
  EXPECT_EQ(current(), 0);
  const long before = fake_cuda_count("calls.cudaSetDevice");
  {
    const DeviceScope same(0);
  }
  EXPECT_EQ(fake_cuda_count("calls.cudaSetDevice"), before) << "nothing to change, nothing to pay";
}

TEST_F(Cuda, ADeviceScopeThatFailsLeavesTheDevice) {
  const CapturedLog log;
  {
    const DeviceScope scope(9);
    EXPECT_EQ(scope.error(), Error::Internal);
  }
  EXPECT_EQ(current(), 0);
  fake_cuda_fail("cudaGetDevice", 1, cudaErrorLaunchFailure);
  const DeviceScope scope(1);
  EXPECT_NE(scope.error(), Error::Ok);
  EXPECT_EQ(current(), 0);
}

TEST_F(Cuda, BuffersGrowAndStay) {
  DeviceBuffer buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  ASSERT_EQ(buffer.reserve(100), Error::Ok);
  void* const first = buffer.data();
  ASSERT_EQ(buffer.reserve(50), Error::Ok);
  EXPECT_EQ(buffer.data(), first);
  EXPECT_EQ(buffer.size_bytes(), 100u);
  ASSERT_EQ(buffer.reserve(200), Error::Ok);
  EXPECT_EQ(buffer.size_bytes(), 200u);
  EXPECT_EQ(fake_cuda_count("live.device_blocks"), 1);
}

TEST_F(Cuda, AFailedGrowthKeepsTheOldBlock) {
  PinnedBuffer buffer;
  ASSERT_EQ(buffer.reserve(8), Error::Ok);
  std::memcpy(buffer.data(), "content", 8);
  const CapturedLog log;
  fake_cuda_fail("cudaMallocHost", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(buffer.reserve(100), Error::MemoryAllocationFailed);
  EXPECT_EQ(buffer.size_bytes(), 8u);
  EXPECT_STREQ(static_cast<char*>(buffer.data()), "content");
  EXPECT_EQ(buffer.reserve(100), Error::Ok);
}

TEST_F(Cuda, BuffersMoveWithoutCopying) {
  DeviceBuffer first;
  ASSERT_EQ(first.reserve(10), Error::Ok);
  void* const block = first.data();
  DeviceBuffer second(std::move(first));
  EXPECT_EQ(second.data(), block);
  EXPECT_EQ(fake_cuda_count("live.device_blocks"), 1);
}

TEST_F(Cuda, PointersAreWhatCudaKnowsOfThem) {
  DeviceBuffer device;
  PinnedBuffer pinned;
  void* managed = nullptr;
  {
    const DeviceScope scope(1);
    ASSERT_EQ(device.reserve(16), Error::Ok);
  }
  ASSERT_EQ(pinned.reserve(16), Error::Ok);
  cudaMallocManaged(&managed, 16, cudaMemAttachGlobal);
  int pageable = 0;
  EXPECT_EQ(describe_pointer(static_cast<char*>(device.data()) + 15)->kind, MemoryKind::kDevice);
  EXPECT_EQ(describe_pointer(device.data())->device, 1);
  EXPECT_EQ(describe_pointer(pinned.data())->kind, MemoryKind::kPinned);
  EXPECT_EQ(describe_pointer(managed)->kind, MemoryKind::kManaged);
  EXPECT_EQ(describe_pointer(&pageable)->kind, MemoryKind::kPageable);
  cudaFree(managed);
  const CapturedLog log;
  fake_cuda_fail("cudaPointerGetAttributes", 1, cudaErrorInvalidValue);
  EXPECT_EQ(describe_pointer(&pageable).error(), Error::Internal);
}

TEST_F(Cuda, EventsOrderStreams) {
  auto first = Stream::create();
  auto second = Stream::create();
  auto event = Event::create();
  ASSERT_TRUE(first.ok() && second.ok() && event.ok());
  EXPECT_EQ(event->synchronize(), Error::Ok) << "nothing recorded, nothing to wait for";
  DeviceBuffer block;
  ASSERT_EQ(block.reserve(1), Error::Ok);
  cudaMemsetAsync(block.data(), 'a', 1, first->view().get());
  ASSERT_EQ(event->record(first->view()), Error::Ok);
  ASSERT_EQ(event->make_wait(second->view()), Error::Ok);
  cudaMemsetAsync(block.data(), 'b', 1, second->view().get());
  ASSERT_EQ(second->view().synchronize(), Error::Ok);
  char result = '?';
  ASSERT_EQ(copy_async(&result, block.data(), 1, first->view()), Error::Ok);
  ASSERT_EQ(first->view().synchronize(), Error::Ok);
  EXPECT_EQ(result, 'b');
}

TEST_F(Cuda, FailedCreationsLeaveNothing) {
  const CapturedLog log;
  fake_cuda_fail("cudaEventCreateWithFlags", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(Event::create().error(), Error::MemoryAllocationFailed);
  fake_cuda_fail("cudaStreamCreateWithFlags", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(Stream::create().error(), Error::MemoryAllocationFailed);
}

TEST_F(Cuda, CopiesOfNothingCallNothing) {
  const long before = fake_cuda_count("calls");
  EXPECT_EQ(copy_async(nullptr, nullptr, 0, StreamView::per_thread()), Error::Ok);
  EXPECT_EQ(fake_cuda_count("calls"), before);
}

TEST_F(Cuda, DefaultStreamsAreKnown) {
  EXPECT_TRUE(StreamView::per_thread().is_default());
  EXPECT_TRUE(StreamView(static_cast<cudaStream_t>(nullptr)).is_default());
  auto stream = Stream::create();
  EXPECT_FALSE(stream->view().is_default());
}

TEST_F(Cuda, GraphsHoldWhatWasCaptured) {
  auto stream = Stream::create();
  DeviceBuffer block;
  ASSERT_EQ(block.reserve(1), Error::Ok);
  const char* why = "";
  auto graph = Graph::capture(
      stream->view(),
      [&] { return cudaMemsetAsync(block.data(), 'g', 1, stream->view().get()) == cudaSuccess; }, why);
  ASSERT_TRUE(graph.ok()) << why;
  for (int launch = 0; launch < 2; ++launch) {
    ASSERT_EQ(graph->launch(stream->view()), Error::Ok);
  }
  char result = '?';
  ASSERT_EQ(copy_async(&result, block.data(), 1, stream->view()), Error::Ok);
  EXPECT_EQ(result, 'g');
}

TEST_F(Cuda, AFailedCaptureSaysWhyAndFreesTheStream) {
  auto stream = Stream::create();
  const CapturedLog log;
  const auto capture = [&](bool works) {
    const char* why = "";
    auto graph = Graph::capture(stream->view(), [works] { return works; }, why);
    EXPECT_FALSE(graph.ok());
    return std::string(why);
  };
  EXPECT_EQ(capture(false), "TensorRT refused to queue its work while it is captured");
  EXPECT_EQ(capture(true), "nothing was captured");
  for (const char* call :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphGetNodes", "cudaGraphInstantiate"}) {
    fake_cuda_fail(call, 1, cudaErrorLaunchFailure);
    const char* why = "";
    auto graph = Graph::capture(
        stream->view(),
        [&] { return cudaLaunchHostFunc(stream->view().get(), [](void*) {}, nullptr) == cudaSuccess; }, why);
    EXPECT_FALSE(graph.ok()) << call;
    EXPECT_STREQ(why, "unspecified launch failure");
    EXPECT_EQ(stream->view().synchronize(), Error::Ok) << call << " left the stream capturing";
  }
  EXPECT_TRUE(log.errors().empty()) << log.text();
}

TEST_F(Cuda, GreenContextsAreThoseOfTheStream) {
  auto stream = Stream::create();
  EXPECT_EQ(green_context_of(stream->view()), 0u);
  fake_cuda_set_green_context(stream->view().get(), reinterpret_cast<void*>(0x55));
  const uint64_t first = green_context_of(stream->view());
  EXPECT_NE(first, 0u);
  EXPECT_EQ(green_context_of(StreamView::per_thread()), 0u);
  {
    auto beside = create_stream_beside(stream->view());
    ASSERT_TRUE(beside.ok());
    EXPECT_EQ(green_context_of(beside->view()), first);
  }
  fake_cuda_replace_green_context(reinterpret_cast<void*>(0x55));
  EXPECT_NE(green_context_of(stream->view()), first) << "another green context at the same address";
}

TEST_F(Cuda, DevicesAreCountedAndDescribed) {
  EXPECT_EQ(*device_count(), 2);
  fake_cuda_set_compute_capability(1, 12, 0);
  const auto info = device_info(1);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->name, "Fake GPU 1");
  EXPECT_EQ(info->compute_capability, "12.0");
  EXPECT_GT(info->memory_bytes, 0u);
  const CapturedLog log;
  EXPECT_EQ(device_info(5).error(), Error::Internal);
  fake_cuda_set_devices(0);
  EXPECT_EQ(device_count().error(), Error::NotFound);
  EXPECT_TRUE(log.contains("The driver sees no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"))
      << log.text();
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
