// The loaded engines run without the delegate, for comparison.

#include "executorch/bare_engines_api.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Floats = TestTensor<float>;

FakeEngine add_one(int device = 0) {
  return add_one_to_up_to_8(device).engine_property("weight_bytes", "5000");
}

/// Owns the object behind the C functions; its methods must not fail.
class Bare {
 public:
  explicit Bare(const std::vector<size_t>& numbers) {
    error_ = static_cast<Error>(tensorrt_executorch_bare_create(numbers.data(), numbers.size(), &engines_));
  }
  ~Bare() { tensorrt_executorch_bare_destroy(engines_); }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  Error error() const { return error_; }
  bool exists() const { return engines_ != nullptr; }
  std::string no_graphs_because() const { return tensorrt_executorch_bare_no_graphs_because(engines_); }

  Error latencies(bool graphs, std::vector<double>& times) {
    return static_cast<Error>(
        tensorrt_executorch_bare_latencies(engines_, graphs, times.size(), times.data()));
  }
  Error total(bool graphs, size_t calls, double& time) {
    return static_cast<Error>(tensorrt_executorch_bare_total(engines_, graphs, calls, &time));
  }

 private:
  tensorrt_executorch_bare_engines* engines_ = nullptr;
  Error error_;
};

class BareEngines : public FakeMachine {
 protected:
  static long kernels() { return fake_cuda_count("kernels"); }
  static long waits() { return fake_cuda_count("calls.cudaStreamSynchronize"); }
  static long engines() { return fake_cuda_count("live.tensorrt_engines"); }

  static Delegate load_and_call(const FakeEngine& engine) {
    auto delegate = Delegate::load(engine);
    EXPECT_TRUE(delegate.ok());
    Floats x({2}, {1, 2});
    Floats y({2}, {0, 0});
    EXPECT_EQ(delegate->run({x, y}), Error::Ok);
    return std::move(*delegate);
  }

  static void expect_refused(const std::vector<size_t>& numbers, Error error, const std::string& sentence) {
    const CapturedLog log;
    const Bare bare(numbers);
    EXPECT_EQ(bare.error(), error);
    EXPECT_FALSE(bare.exists());
    ASSERT_EQ(log.errors().size(), 1u) << log.text();
    EXPECT_TRUE(log.contains(sentence)) << log.text();
  }
};

TEST_F(BareEngines, RunAndWaitOncePerTime) {
  const Delegate delegate = load_and_call(add_one());
  Bare bare({0});
  ASSERT_EQ(bare.error(), Error::Ok);
  EXPECT_EQ(bare.no_graphs_because(), "");
  for (const bool graphs : {false, true}) {
    const long kernels_before = kernels();
    const long launches_before = fake_cuda_count("graph_launches");
    const long waits_before = waits();
    std::vector<double> times(7, -1);
    ASSERT_EQ(bare.latencies(graphs, times), Error::Ok);
    EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](double time) { return time > 0; }));
    EXPECT_EQ(waits() - waits_before, 7);
    EXPECT_EQ(kernels() - kernels_before, graphs ? 0 : 7);
    EXPECT_EQ(fake_cuda_count("graph_launches") - launches_before, graphs ? 7 : 0);
  }
}

TEST_F(BareEngines, WaitOnceForATotal) {
  const Delegate delegate = load_and_call(add_one());
  Bare bare({0});
  ASSERT_EQ(bare.error(), Error::Ok);
  const long kernels_before = kernels();
  const long waits_before = waits();
  double time = 0;
  ASSERT_EQ(bare.total(false, 9, time), Error::Ok);
  EXPECT_GT(time, 0);
  EXPECT_EQ(kernels() - kernels_before, 9);
  EXPECT_EQ(waits() - waits_before, 1);
}

TEST_F(BareEngines, ShareTheLoadedEngineAndMayOutliveIt) {
  auto delegate = std::make_unique<Delegate>(load_and_call(add_one()));
  const long loaded = engines();
  Bare bare({0});
  ASSERT_EQ(bare.error(), Error::Ok);
  EXPECT_EQ(engines(), loaded) << "weights are on the device once";
  delegate.reset();
  double time = 0;
  EXPECT_EQ(bare.total(true, 3, time), Error::Ok);
}

TEST_F(BareEngines, RunInTheOrderThatIsNamed) {
  const Delegate first = load_and_call(add_one());
  FakeEngine other = add_one();
  other.metadata("\"layers\":2");
  const Delegate second = load_and_call(other);
  Bare bare({1, 0, 1});
  ASSERT_EQ(bare.error(), Error::Ok);
  for (const bool graphs : {false, true}) {
    const char* counter = graphs ? "graph_launches" : "kernels";
    const long before = fake_cuda_count(counter);
    std::vector<double> times(2);
    ASSERT_EQ(bare.latencies(graphs, times), Error::Ok);
    EXPECT_EQ(fake_cuda_count(counter) - before, 6) << "three engines, twice";
  }
}

TEST_F(BareEngines, RunOnTheirGpuAndLeaveTheCallersCurrent) {
  const Delegate delegate = load_and_call(add_one(1));
  Bare bare({0});
  ASSERT_EQ(bare.error(), Error::Ok);
  double time = 0;
  EXPECT_EQ(bare.total(false, 2, time), Error::Ok);
  int current = -1;
  cudaGetDevice(&current);
  EXPECT_EQ(current, 0);
}

TEST_F(BareEngines, BindAnOutputToTheInputWhoseMemoryItShares) {
  FakeEngine engine;
  engine.input("cache", "float32", {2, 2}).input("row", "float32", {1, 2}).input("position", "int64", {1});
  engine.aliased_output("new_cache", "float32", {2, 2}, "cache").output("total", "float32", {});
  engine.operation("new_cache", "update", {"cache", "row", "position"}).operation("total", "sum", {"cache"});
  engine.alias("new_cache", "cache");
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  Floats cache(Floats::Kind::kDevice, {2, 2}, {0, 0, 0, 0});
  Floats row({1, 2}, {5, 6});
  TestTensor<int64_t> position({1}, {1});
  Floats total({}, {0});
  ASSERT_EQ(delegate->run({cache, row, position, total}), Error::Ok);
  Bare bare({0});
  ASSERT_EQ(bare.error(), Error::Ok);
  std::vector<double> times(2);
  EXPECT_EQ(bare.latencies(true, times), Error::Ok);
  EXPECT_EQ(cache.values(), (std::vector<float>{0, 0, 5, 6})) << "the program's memory is not touched";
}

TEST_F(BareEngines, TakeEmptyTensorsAndEveryType) {
  for (const char* type : {"float16", "bfloat16", "int32", "int64", "bool", "uint8"}) {
    FakeEngine engine;
    engine.input("x", "float32", {0}).input("n", type, {3}).output("y", "float32", {0});
    engine.linear("y", {"x"}, {}, 1);
    auto delegate = Delegate::load(engine);
    ASSERT_TRUE(delegate.ok()) << type;
    Floats x({0}, {});
    Floats y({0}, {});
    TestTensor<int64_t> integers({3}, {0, 0, 0});
    TestTensor<int32_t> small({3}, {0, 0, 0});
    TestTensor<bool> bools({3}, {false, false, false});
    TestTensor<uint8_t> bytes({3}, {0, 0, 0});
    TestTensor<Half> halves({3}, {Half(0.F), Half(0.F), Half(0.F)});
    TestTensor<BFloat16> brains({3}, {BFloat16(0.F), BFloat16(0.F), BFloat16(0.F)});
    const std::string name = type;
    Tensor* n = name == "int64"     ? integers.get()
                : name == "int32"   ? small.get()
                : name == "bool"    ? bools.get()
                : name == "uint8"   ? bytes.get()
                : name == "float16" ? halves.get()
                                    : brains.get();
    ASSERT_EQ(delegate->run({x, n, y}), Error::Ok) << type;
    Bare bare({0});
    EXPECT_EQ(bare.error(), Error::Ok) << type;
  }
}

TEST_F(BareEngines, SayWhyTheyCannotBeCaptured) {
  const Delegate delegate = load_and_call(add_one());
  fake_cuda_fail("cudaGraphInstantiate", 1, cudaErrorMemoryAllocation);
  Bare bare({0});
  ASSERT_EQ(bare.error(), Error::Ok);
  EXPECT_EQ(bare.no_graphs_because(), "out of memory");
  std::vector<double> times(1);
  EXPECT_EQ(bare.latencies(false, times), Error::Ok);
  const CapturedLog log;
  EXPECT_EQ(bare.latencies(true, times), Error::NotSupported);
  EXPECT_TRUE(log.contains("cannot be run as CUDA graphs, because capturing them failed: out of memory"));
}

TEST_F(BareEngines, NeedEnginesThatAreLoadedAndWereCalled) {
  expect_refused({}, Error::InvalidArgument, "No engine was named to run without the delegate");
  expect_refused({0}, Error::InvalidArgument, "Engine 0 is not loaded; engines count from 0");
  auto delegate = Delegate::load(add_one());
  ASSERT_TRUE(delegate.ok());
  expect_refused({0}, Error::InvalidState, "method \"forward\" was not called yet");
  expect_refused({0, 3}, Error::InvalidState, "was not called yet");
}

TEST_F(BareEngines, RefuseEnginesOfSeveralGpus) {
  const Delegate first = load_and_call(add_one(0));
  const Delegate second = load_and_call(add_one(1));
  expect_refused({0, 1}, Error::InvalidArgument, "The engines lie on GPU 0 and GPU 1");
}

// Whatever CUDA call fails, there is an error with a sentence, and nothing is left behind.
TEST_F(BareEngines, FailCleanlyWhereverCudaDoes) {
  const Delegate delegate = load_and_call(add_one());
  long armed = 0;
  do {
    fake_cuda_fail(nullptr, ++armed, cudaErrorLaunchFailure);
    const CapturedLog log;
    Bare bare({0});
    std::vector<double> times(1);
    const Error ran = bare.exists() ? bare.latencies(false, times) : bare.error();
    EXPECT_TRUE(ran == Error::Ok || !log.errors().empty()) << armed;
    ASSERT_LT(armed, 1000);
  } while (fake_cuda_failed());
  EXPECT_GT(armed, 10);
  fake_cuda_fail(nullptr, 0, cudaSuccess);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
