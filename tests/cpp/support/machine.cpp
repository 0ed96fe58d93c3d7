#include "tests/cpp/support/machine.h"

#include "engine/kernel_cache.h"
#include "engine/runtime_cache_pool.h"
#include "tensorrt/library_search.h"

namespace executorch::backends::tensorrt::testing {

namespace {

// Runtimes stay for the life of the process: one per library.
constexpr const char* kCounted[] = {
    "live.device_blocks",   "live.pinned_blocks",   "live.managed_blocks",   "live.streams",
    "live.events",          "live.graphs",          "live.tensorrt_engines", "live.tensorrt_contexts",
    "live.tensorrt_caches", "live.tensorrt_configs"};

long live(const std::string& name) { return fake_cuda_count(name.c_str()); }

}  // namespace

std::string fake_library(const std::string& file) { return std::string(FAKES_LIBRARY_DIR) + "/" + file; }

void FakeMachine::SetUp() {
  fake_cuda_reset();
  RuntimeCachePool::clear();
  set_library_files(fake_library("libtensorrt_rtx.so.1") + ":" + fake_library("libnvinfer.so.11"));
  KernelCache::set_folder(kernels_.path());
  for (const char* name : kCounted) {
    live_before_[name] = live(name);
  }
}

void FakeMachine::TearDown() {
  fake_cuda_fail(nullptr, 0, cudaSuccess);
  fake_cuda_set_devices(2);
  RuntimeCachePool::clear();
  for (const auto& [name, before] : live_before_) {
    EXPECT_EQ(live(name), before) << name << ": something was not released";
  }
  EXPECT_STREQ(fake_cuda_violations(), "");
  int device = -1;
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0) << "the caller's device was not restored";
}

}  // namespace executorch::backends::tensorrt::testing
