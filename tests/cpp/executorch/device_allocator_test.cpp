#include "executorch/device_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cuda/stream.h"
#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;

class Allocator : public FakeMachine {
 protected:
  CudaAllocator own_;
  executorch::runtime::DeviceAllocator& allocator_ =
      own_;  // as ExecuTorch sees it, with the default alignment
};

TEST_F(Allocator, CopiesThereAndBack) {
  for (const int8_t device : {int8_t{0}, int8_t{1}, int8_t{-1}}) {
    auto block = allocator_.allocate(5, device);
    ASSERT_TRUE(block.ok());
    EXPECT_EQ(allocator_.copy_host_to_device(*block, "abcde", 5, device), Error::Ok);
    std::string back(5, '?');
    EXPECT_EQ(allocator_.copy_device_to_host(back.data(), *block, 5, device), Error::Ok);
    EXPECT_EQ(back, "abcde");
    allocator_.deallocate(*block, device);
  }
}

TEST_F(Allocator, PlacesMemoryOnTheNamedGpuAndRestoresTheCurrentOne) {
  auto block = allocator_.allocate(16, 1, 256);
  ASSERT_TRUE(block.ok());
  cudaPointerAttributes attributes{};
  cudaPointerGetAttributes(&attributes, *block);
  EXPECT_EQ(attributes.device, 1);
  int device = -1;
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0);
  allocator_.deallocate(*block, 1);
}

TEST_F(Allocator, CopiesToPinnedMemoryAreThereOnReturn) {
  auto block = allocator_.allocate(5, 0);
  ASSERT_TRUE(block.ok());
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 5), cudaSuccess);
  EXPECT_EQ(allocator_.copy_host_to_device(*block, "abcde", 5, 0), Error::Ok);
  EXPECT_EQ(allocator_.copy_device_to_host(pinned, *block, 5, 0), Error::Ok);
  EXPECT_EQ(std::string(static_cast<char*>(pinned), 5), "abcde");
  cudaFreeHost(pinned);
  allocator_.deallocate(*block, 0);
}

// ExecuTorch tags some host tensors as device tensors.
TEST_F(Allocator, CopiesHostMemoryThatClaimsToBeOnTheDevice) {
  std::string source = "host!";
  std::string target(5, '?');
  EXPECT_EQ(allocator_.copy_device_to_host(target.data(), source.data(), 5, 0), Error::Ok);
  EXPECT_EQ(target, "host!");
}

TEST_F(Allocator, CopiesNothingWithoutACall) {
  const long calls = fake_cuda_count("calls.cudaMemcpyAsync");
  EXPECT_EQ(allocator_.copy_host_to_device(nullptr, nullptr, 0, 0), Error::Ok);
  EXPECT_EQ(fake_cuda_count("calls.cudaMemcpyAsync"), calls);
}

TEST_F(Allocator, RefusesAnAlignmentThatCudaDoesNotGive) {
  const CapturedLog log;
  EXPECT_EQ(allocator_.allocate(16, 0, 512).error(), Error::NotSupported);
  EXPECT_TRUE(log.contains("an alignment of 512 bytes; CUDA gives 256 at most")) << log.text();
}

TEST_F(Allocator, SaysWhoNeedsTheMemoryThatIsMissing) {
  fake_cuda_set_memory(100);
  const CapturedLog log;
  EXPECT_EQ(allocator_.allocate(1000, 1).error(), Error::MemoryAllocationFailed);
  EXPECT_TRUE(log.contains("The program needs 1000 bytes of memory on GPU 1 for its planned buffers"))
      << log.text();
}

TEST_F(Allocator, RefusesAGpuThatIsNotThere) {
  const CapturedLog log;
  EXPECT_EQ(allocator_.allocate(16, 9).error(), Error::Internal);
  EXPECT_TRUE(log.contains("cudaSetDevice failed: invalid device ordinal")) << log.text();
  EXPECT_TRUE(log.contains("export the program with device=\"cuda:0\"")) << log.text();
}

TEST_F(Allocator, EveryFailureOfACopyIsReported) {
  auto block = allocator_.allocate(4, 0);
  ASSERT_TRUE(block.ok());
  char host[4] = {};
  for (long n = 1; n <= 3; ++n) {
    const CapturedLog log;
    fake_cuda_fail(nullptr, n, cudaErrorLaunchFailure);
    const Error error = allocator_.copy_device_to_host(host, *block, 4, 1);
    EXPECT_TRUE(fake_cuda_failed());
    EXPECT_TRUE(error == Error::Internal && log.errors().size() == 1) << n << ": " << log.text();
    cudaSetDevice(0);
  }
  allocator_.deallocate(*block, 0);
}

/// Sizes around those at which copies change their way: the driver's own, few pieces, many pieces, a short
/// last piece.
class LargeCopies : public Allocator, public ::testing::WithParamInterface<size_t> {
 protected:
  void SetUp() override {
    Allocator::SetUp();
    for (size_t i = 0; i < source_.size(); ++i) {
      source_[i] = static_cast<char>(i * 31 + i / 251);
    }
    auto block = allocator_.allocate(GetParam(), 0);
    ASSERT_TRUE(block.ok());
    block_ = *block;
  }
  void TearDown() override {
    allocator_.deallocate(block_, 0);
    Allocator::TearDown();
  }

  std::string source_ = std::string(GetParam(), 'x');
  void* block_ = nullptr;
};

TEST_P(LargeCopies, ArriveWhole) {
  std::string back(GetParam(), '?');
  ASSERT_EQ(allocator_.copy_host_to_device(block_, source_.data(), source_.size(), 0), Error::Ok);
  ASSERT_EQ(allocator_.copy_device_to_host(back.data(), block_, back.size(), 0), Error::Ok);
  EXPECT_EQ(back, source_);
}

TEST_P(LargeCopies, DoNotReadTheSourceLater) {
  std::string scribbled = source_;
  std::string back(GetParam(), '?');
  ASSERT_EQ(allocator_.copy_host_to_device(block_, scribbled.data(), scribbled.size(), 0), Error::Ok);
  std::fill(scribbled.begin(), scribbled.end(), '!');
  ASSERT_EQ(allocator_.copy_device_to_host(back.data(), block_, back.size(), 0), Error::Ok);
  EXPECT_EQ(back, source_);
}

TEST_P(LargeCopies, TwoOfThemDoNotMix) {
  auto other = allocator_.allocate(GetParam(), 0);
  ASSERT_TRUE(other.ok());
  const std::string second(source_.rbegin(), source_.rend());
  std::string back(GetParam(), '?');
  ASSERT_EQ(allocator_.copy_host_to_device(block_, source_.data(), source_.size(), 0), Error::Ok);
  ASSERT_EQ(allocator_.copy_host_to_device(*other, second.data(), second.size(), 0), Error::Ok);
  ASSERT_EQ(allocator_.copy_device_to_host(back.data(), block_, back.size(), 0), Error::Ok);
  EXPECT_EQ(back, source_);
  ASSERT_EQ(allocator_.copy_device_to_host(back.data(), *other, back.size(), 0), Error::Ok);
  EXPECT_EQ(back, second);
  allocator_.deallocate(*other, 0);
}

TEST_P(LargeCopies, RunOnTheCallersStream) {
  auto stream = Stream::create();
  ASSERT_TRUE(stream.ok());
  tensorrt_executorch_set_caller_stream(stream->view().get());
  std::string back(GetParam(), '?');
  ASSERT_EQ(allocator_.copy_host_to_device(block_, source_.data(), source_.size(), 0), Error::Ok);
  EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaSuccess);
  ASSERT_EQ(allocator_.copy_device_to_host(back.data(), block_, back.size(), 0), Error::Ok);
  EXPECT_EQ(cudaStreamQuery(stream->view().get()), cudaSuccess) << "a copy to the host leaves nothing behind";
  tensorrt_executorch_clear_caller_stream();
  EXPECT_EQ(back, source_);
}

TEST_P(LargeCopies, EveryFailureIsReportedAndLeavesNothingBroken) {
  std::string back(GetParam(), '?');
  long n = 0;
  do {
    fake_cuda_fail(nullptr, ++n, cudaErrorLaunchFailure);
    const CapturedLog log;
    const Error there = allocator_.copy_host_to_device(block_, source_.data(), source_.size(), 0);
    const Error back_again = allocator_.copy_device_to_host(back.data(), block_, back.size(), 0);
    EXPECT_EQ(fake_cuda_failed() != 0, !log.errors().empty()) << n << ": " << log.text();
    EXPECT_EQ(fake_cuda_failed() != 0, there != Error::Ok || back_again != Error::Ok) << n;
    cudaSetDevice(0);
  } while (fake_cuda_failed());
  fake_cuda_fail(nullptr, 0, cudaSuccess);
  ASSERT_GT(n, 4);
  ASSERT_EQ(allocator_.copy_host_to_device(block_, source_.data(), source_.size(), 0), Error::Ok);
  ASSERT_EQ(allocator_.copy_device_to_host(back.data(), block_, back.size(), 0), Error::Ok);
  EXPECT_EQ(back, source_);
}

INSTANTIATE_TEST_SUITE_P(Sizes, LargeCopies,
                         ::testing::Values(1000, (64 << 10) - 1, 64 << 10, 300'001, 1 << 20, (9 << 20) + 7));

TEST_F(Allocator, LargeCopiesOnManyThreadsAtOnceDoNotMix) {
  constexpr size_t kBytes = 700'000;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      auto block = allocator_.allocate(kBytes, 0);
      for (int round = 0; round < 10; ++round) {
        const std::string source(kBytes, static_cast<char>('a' + i + round));
        std::string back(kBytes, '?');
        static_cast<void>(allocator_.copy_host_to_device(*block, source.data(), kBytes, 0));
        static_cast<void>(allocator_.copy_device_to_host(back.data(), *block, kBytes, 0));
        wrong += back != source;
      }
      allocator_.deallocate(*block, 0);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(Allocator, PageLockedMemoryGoesWithTheLastBlock) {
  auto block = allocator_.allocate(1 << 20, 0);
  ASSERT_TRUE(block.ok());
  const std::string source(1 << 20, 'x');
  const long before = fake_cuda_count("live.pinned_blocks");
  ASSERT_EQ(allocator_.copy_host_to_device(*block, source.data(), source.size(), 0), Error::Ok);
  EXPECT_GT(fake_cuda_count("live.pinned_blocks"), before);
  allocator_.deallocate(*block, 0);
  EXPECT_EQ(fake_cuda_count("live.pinned_blocks"), before);
}

TEST_F(Allocator, SaysWhenThereIsNoPageLockedMemory) {
  auto block = allocator_.allocate(1 << 20, 0);
  ASSERT_TRUE(block.ok());
  const std::string source(1 << 20, 'x');
  const CapturedLog log;
  fake_cuda_fail("cudaMallocHost", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(allocator_.copy_host_to_device(*block, source.data(), source.size(), 0),
            Error::MemoryAllocationFailed);
  EXPECT_TRUE(log.contains("cudaMallocHost failed: out of memory")) << log.text();
  allocator_.deallocate(*block, 0);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
