// The fake CUDA runtime must be strict where the real one is only sometimes: these tests hold it to that.

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

class FakeCudart : public FakeMachine {
 protected:
  void TearDown() override {
    if (HasFatalFailure()) {
      return;
    }
    FakeMachine::TearDown();
  }
};

struct Device {
  explicit Device(size_t bytes) { cudaMalloc(&data, bytes); }
  ~Device() { cudaFree(data); }
  void* data = nullptr;
};

std::string fetch(const void* data, size_t bytes) {
  std::string text(bytes, '?');
  EXPECT_EQ(cudaMemcpy(text.data(), data, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  return text;
}

TEST_F(FakeCudart, HostCannotTouchDeviceMemory) {
  const Device block(16);
  EXPECT_DEATH(static_cast<volatile char*>(block.data)[0] = 1, "");
}

TEST_F(FakeCudart, NewMemoryIsPoisoned) {
  const Device block(4);
  EXPECT_EQ(fetch(block.data, 4), "\xA5\xA5\xA5\xA5");
}

TEST_F(FakeCudart, PinnedCopiesHappenOnlyWhenSomethingWaits) {
  const Device block(4);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 8), cudaSuccess);
  std::memcpy(pinned, "aaaabbbb", 8);
  cudaMemcpyAsync(block.data, pinned, 4, cudaMemcpyDefault, cudaStreamPerThread);
  std::memcpy(pinned, "cccc", 4);  // too early: the copy has not read it yet
  cudaMemcpyAsync(static_cast<char*>(pinned) + 4, block.data, 4, cudaMemcpyDefault, cudaStreamPerThread);
  EXPECT_EQ(std::string(static_cast<char*>(pinned) + 4, 4), "bbbb");
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  EXPECT_EQ(std::string(static_cast<char*>(pinned) + 4, 4), "cccc");
  cudaFreeHost(pinned);
}

TEST_F(FakeCudart, PageableSourcesAreReadAtTheCall) {
  const Device block(4);
  std::string source = "good";
  cudaMemcpyAsync(block.data, source.data(), 4, cudaMemcpyHostToDevice, cudaStreamPerThread);
  source = "late";
  EXPECT_EQ(fetch(block.data, 4), "good");
}

TEST_F(FakeCudart, PageableTargetsAreCompleteOnReturn) {
  const Device block(4);
  cudaMemsetAsync(block.data, 'x', 4, cudaStreamPerThread);
  std::string target = "????";
  cudaMemcpyAsync(target.data(), block.data, 4, cudaMemcpyDeviceToHost, cudaStreamPerThread);
  EXPECT_EQ(target, "xxxx");
  EXPECT_EQ(fake_cuda_count("host_waits"), 1);
}

TEST_F(FakeCudart, StreamsAreIndependentUntilAnEventOrdersThem) {
  const Device block(1);
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaMemsetAsync(block.data, 'a', 1, first);
  cudaMemsetAsync(block.data, 'b', 1, second);
  cudaStreamSynchronize(second);
  cudaStreamSynchronize(first);
  EXPECT_EQ(fetch(block.data, 1), "a") << "the first stream ran last, because it was waited for last";

  cudaMemsetAsync(block.data, 'c', 1, first);
  cudaEventRecord(event, first);
  cudaStreamWaitEvent(second, event, 0);
  cudaMemsetAsync(block.data, 'd', 1, second);
  cudaStreamSynchronize(second);
  EXPECT_EQ(fetch(block.data, 1), "d");
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaEventDestroy(event);
}

TEST_F(FakeCudart, TheLegacyStreamWaitsForBlockingStreamsOnly) {
  const Device block(2);
  cudaStream_t blocking = nullptr;
  cudaStream_t free_running = nullptr;
  cudaStreamCreate(&blocking);
  cudaStreamCreateWithFlags(&free_running, cudaStreamNonBlocking);
  cudaMemsetAsync(block.data, 'a', 1, blocking);
  cudaMemsetAsync(static_cast<char*>(block.data) + 1, 'b', 1, free_running);
  EXPECT_EQ(fetch(block.data, 2), "a\xA5");
  cudaStreamDestroy(blocking);
  cudaStreamSynchronize(free_running);
  cudaStreamDestroy(free_running);
}

TEST_F(FakeCudart, PollingEnds) {
  const Device block(1);
  cudaMemsetAsync(block.data, 'a', 1, cudaStreamPerThread);
  EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not ready is no error";
}

class Misuse : public FakeMachine {
 protected:
  void TearDown() override {
    fake_cuda_reset();  // what follows was on purpose
    FakeMachine::TearDown();
  }
  static bool reported(const std::string& part) {
    return std::string(fake_cuda_violations()).find(part) != std::string::npos;
  }
};

TEST_F(Misuse, CopiesPastTheEndOfABlock) {
  const Device block(16);
  char host[32] = {};
  EXPECT_EQ(cudaMemcpy(block.data, host, 17, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_TRUE(reported("target of 17 bytes is at 0 of a block of 16")) << fake_cuda_violations();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Misuse, UseAfterFree) {
  void* block = nullptr;
  cudaMalloc(&block, 16);
  cudaFree(block);
  char host[16] = {};
  EXPECT_EQ(cudaMemcpy(block, host, 16, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_TRUE(reported("in no live block of device memory"));
  EXPECT_EQ(cudaFree(block), cudaErrorInvalidValue);
  EXPECT_TRUE(reported("does not begin a live block"));
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(Misuse, DeadHandles) {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaStreamDestroy(stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_TRUE(reported("a stream handle"));
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEventDestroy(event);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
  EXPECT_TRUE(reported("an event handle"));
}

TEST_F(Misuse, TheWrongKindOfCopy) {
  const Device block(4);
  char host[4] = {};
  EXPECT_EQ(cudaMemcpy(host, block.data, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_TRUE(reported("the stated kind does not fit"));
}

TEST_F(Misuse, KernelsReachOnlyTheirDevicesMemory) {
  const Device block(16);
  EXPECT_NE(fake_cuda_reach(block.data, 16, 0), nullptr);
  EXPECT_EQ(fake_cuda_reach(block.data, 16, 1), nullptr);
  EXPECT_TRUE(reported("a kernel on device 1 uses memory of device 0"));
  char host[16];
  EXPECT_EQ(fake_cuda_reach(host, 16, 0), nullptr);
  EXPECT_TRUE(reported("or pageable memory"));
}

TEST_F(FakeCudart, PointerAttributesTellTheKindsApart) {
  const Device block(16);
  void* pinned = nullptr;
  void* managed = nullptr;
  char host[4];
  cudaMallocHost(&pinned, 16);
  cudaMallocManaged(&managed, 16, cudaMemAttachGlobal);
  cudaPointerAttributes attributes{};
  cudaPointerGetAttributes(&attributes, static_cast<char*>(block.data) + 8);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  cudaPointerGetAttributes(&attributes, pinned);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  cudaPointerGetAttributes(&attributes, managed);
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  cudaPointerGetAttributes(&attributes, host);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  cudaFreeHost(pinned);
  cudaFree(managed);
}

TEST_F(FakeCudart, TheArmedCallFailsOnce) {
  fake_cuda_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_EQ(cudaMalloc(&first, 1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 1), cudaErrorMemoryAllocation);
  EXPECT_TRUE(fake_cuda_failed());
  EXPECT_EQ(cudaMalloc(&second, 1), cudaSuccess);
  fake_cuda_fail("cudaFree", 1, cudaErrorLaunchFailure);
  EXPECT_EQ(cudaFree(first), cudaErrorLaunchFailure) << "and yet it is released";
  cudaFree(second);
}

TEST_F(FakeCudart, FailedWorkIsReportedByTheNextWait) {
  const Device block(1);
  fake_cuda_fail_work(cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemsetAsync(block.data, 1, 1, cudaStreamPerThread), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
}

TEST_F(FakeCudart, MachinesWithoutDriverOrGpuSaySo) {
  int devices = -1;
  fake_cuda_set_devices(0);
  EXPECT_EQ(cudaGetDeviceCount(&devices), cudaErrorNoDevice);
  fake_cuda_set_devices(-1);
  EXPECT_EQ(cudaGetDeviceCount(&devices), cudaErrorInsufficientDriver);
  int version = -1;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
}

TEST_F(FakeCudart, MemoryRunsOut) {
  fake_cuda_set_memory(100);
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, 101), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&block, 60), cudaSuccess);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 60), cudaErrorMemoryAllocation);
  cudaSetDevice(1);
  EXPECT_EQ(cudaMalloc(&more, 60), cudaSuccess) << "the other device has its own";
  cudaSetDevice(0);
  cudaFree(block);
  cudaFree(more);
}

TEST_F(FakeCudart, CapturedWorkRunsAtLaunchOnly) {
  const Device block(1);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaMemsetAsync(block.data, 'g', 1, stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  EXPECT_EQ(nodes, 1u);
  EXPECT_EQ(fetch(block.data, 1), "\xA5");
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  cudaGraphLaunch(executable, stream);
  EXPECT_EQ(fetch(block.data, 1), "\xA5") << "deferred like all work";
  cudaStreamSynchronize(stream);
  EXPECT_EQ(fetch(block.data, 1), "g");
  cudaGraphExecDestroy(executable);
  cudaStreamDestroy(stream);
}

TEST_F(FakeCudart, WaitingOrAllocatingSpoilsACapture) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, 1), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  std::thread([&] { EXPECT_EQ(cudaMalloc(&block, 1), cudaSuccess) << "another thread may"; }).join();
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  cudaFree(block);
  cudaStreamDestroy(stream);
}

TEST_F(FakeCudart, OtherStreamsJoinACaptureThroughEvents) {
  cudaStream_t origin = nullptr;
  cudaStream_t branch = nullptr;
  cudaEvent_t event = nullptr;
  const Device block(1);
  cudaStreamCreateWithFlags(&origin, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking);
  cudaEventCreate(&event);
  cudaGraph_t graph = nullptr;
  for (const bool join : {false, true}) {
    cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(event, origin);
    cudaStreamWaitEvent(branch, event, 0);
    cudaMemsetAsync(block.data, 1, 1, branch);
    if (join) {
      cudaEventRecord(event, branch);
      cudaStreamWaitEvent(origin, event, 0);
    }
    EXPECT_EQ(cudaStreamEndCapture(origin, &graph), join ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
  }
  cudaGraphDestroy(graph);
  cudaEventDestroy(event);
  cudaStreamDestroy(origin);
  cudaStreamDestroy(branch);
}

TEST_F(FakeCudart, ThreadsHaveStreamsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 50; ++round) {
        const Device block(8);
        cudaMemsetAsync(block.data, 'a' + i, 8, cudaStreamPerThread);
        std::string target(8, '?');
        cudaMemcpyAsync(target.data(), block.data, 8, cudaMemcpyDeviceToHost, cudaStreamPerThread);
        EXPECT_EQ(target, std::string(8, static_cast<char>('a' + i)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
