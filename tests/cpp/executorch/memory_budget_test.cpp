// A budget for what the engines of a process hold on a GPU.

#include <gtest/gtest.h>

#include <executorch/runtime/backend/interface.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "engine/memory_budget.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::BackendOption;
using executorch::runtime::Error;

constexpr uint64_t kWeights = 4'000'000;
constexpr uint64_t kScratch = 1'000'000;

FakeEngine engine_of(double value) {
  FakeEngine engine;
  engine.input("x", "float32", {2})
      .output("y", "float32", {2})
      .linear("y", {"x"}, {}, value)
      .engine_property("weight_bytes", std::to_string(kWeights))
      .engine_property("scratch_bytes", std::to_string(kScratch));
  return engine;
}

Error set_budget(const BackendOption& option) {
  BackendOption copy = option;
  return executorch::runtime::set_option("TensorRTBackend", {&copy, 1});
}

class MemoryBudget : public FakeMachine {
 protected:
  void TearDown() override {
    EXPECT_EQ(set_budget(text_option("device_memory_budget", "")), Error::Ok);
    FakeMachine::TearDown();
  }
};

TEST_F(MemoryBudget, RefusesTheLoadThatWouldExceedItAndItemisesIt) {
  ASSERT_EQ(set_budget(text_option("device_memory_budget", "9500000")), Error::Ok);
  auto first = Delegate::load(engine_of(1));
  ASSERT_TRUE(first.ok());
  const CapturedLog log;
  auto second = Delegate::load(engine_of(2));
  EXPECT_EQ(second.error(), Error::MemoryAllocationFailed);
  EXPECT_TRUE(log.contains(
      "loading it takes 5.0 MB (weights 4.0 MB, scratch 1.0 MB, staging 0.0 MB, graphs 0.0 MB) on GPU 0"))
      << log.text();
  EXPECT_TRUE(log.contains("hold 5.0 MB (weights 4.0 MB, scratch 1.0 MB")) << log.text();
  EXPECT_TRUE(log.contains("device_memory_budget allows 9.5 MB")) << log.text();
  EXPECT_TRUE(log.contains("use_shared_activation_scratch")) << log.text();
}

TEST_F(MemoryBudget, CountsSharedWeightsOnce) {
  ASSERT_EQ(set_budget(text_option("device_memory_budget", "6500000")), Error::Ok);
  auto first = Delegate::load(engine_of(1));
  auto again = Delegate::load(engine_of(1));  // one million of scratch more
  EXPECT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(memory_in_use(0).weights, kWeights);
  EXPECT_EQ(memory_in_use(0).scratch, 2 * kScratch);
}

TEST_F(MemoryBudget, IsPerGpuAndEndsWithTheLoads) {
  ASSERT_EQ(set_budget(option("device_memory_budget", 5'500'000)), Error::Ok);
  {
    auto first = Delegate::load(engine_of(1));
    auto elsewhere = Delegate::load(engine_of(2).device(1));
    EXPECT_TRUE(first.ok() && elsewhere.ok());
  }
  EXPECT_TRUE(Delegate::load(engine_of(2)).ok());
}

TEST_F(MemoryBudget, MustBeANumberOfBytes) {
  const CapturedLog log;
  for (const BackendOption& wrong :
       {text_option("device_memory_budget", "5 GB"), text_option("device_memory_budget", "-1"),
        option("device_memory_budget", -1), option("device_memory_budget", true)}) {
    EXPECT_EQ(set_budget(wrong), Error::InvalidArgument);
  }
  EXPECT_TRUE(log.contains("device_memory_budget must be a number of bytes")) << log.text();
}

TEST_F(MemoryBudget, IsKeptByLoadsOnManyThreads) {
  ASSERT_EQ(set_budget(text_option("device_memory_budget", "10500000")), Error::Ok);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::optional<Delegate>> loaded(4);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < loaded.size(); ++t) {
      threads.emplace_back([&loaded, t] {
        auto delegate = Delegate::load(engine_of(static_cast<double>(t)));
        if (delegate.ok()) {
          loaded[t].emplace(std::move(*delegate));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(std::count_if(loaded.begin(), loaded.end(), [](const auto& one) { return one.has_value(); }),
              2);
  }
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
