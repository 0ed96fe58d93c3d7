#include "tests/cpp/support/machine.h"

#include "engine/kernel_cache.h"
#include "engine/scratch_pool.h"
#include "tensorrt/library_search.h"

namespace executorch::backends::tensorrt::testing {

namespace {

// Runtimes stay for the life of the process: one per library.
constexpr const char* kCounted[] = {
    "live.device_blocks",   "live.pinned_blocks",   "live.managed_blocks",   "live.streams",
    "live.events",          "live.graphs",          "live.tensorrt_engines", "live.tensorrt_contexts",
    "live.tensorrt_caches", "live.tensorrt_configs"};

/// Shared scratch stays for the life of the process, too: one block and one event per GPU that needed some.
long kept_by_scratch_pools() {
  long count = 0;
  for (const int device : {0, 1}) {
    count += ScratchPool::of(device).size_bytes() > 0 ? 1 : 0;
  }
  return count;
}

long live(const std::string& name) {
  const bool in_pools = name == "live.device_blocks" || name == "live.events";
  return fake_cuda_count(name.c_str()) - (in_pools ? kept_by_scratch_pools() : 0);
}

}  // namespace

std::string fake_library(const std::string& file) { return std::string(FAKES_LIBRARY_DIR) + "/" + file; }

void FakeMachine::SetUp() {
  fake_cuda_reset();
  set_library_files(fake_library("libtensorrt_rtx.so.1") + ":" + fake_library("libnvinfer.so.11"));
  KernelCache::set_folder(kernels_.path());
  for (const char* name : kCounted) {
    live_before_[name] = live(name);
  }
}

void FakeMachine::TearDown() {
  fake_cuda_fail(nullptr, 0, cudaSuccess);
  fake_cuda_set_devices(2);
  for (const auto& [name, before] : live_before_) {
    EXPECT_EQ(live(name), before) << name << ": something was not released";
  }
  EXPECT_STREQ(fake_cuda_violations(), "");
  int device = -1;
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0) << "the caller's device was not restored";
}

}  // namespace executorch::backends::tensorrt::testing
