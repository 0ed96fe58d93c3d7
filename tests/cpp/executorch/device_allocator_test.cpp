#include "executorch/device_allocator.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
