// The counters as C++ programs read them: through ExecuTorch's get_option.

#include <gtest/gtest.h>

#include <executorch/runtime/backend/interface.h>

#include <string>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::BackendOption;
using executorch::runtime::Error;
using Floats = TestTensor<float>;

std::string stat(const std::string& name) {
  BackendOption wanted = text_option(("stats." + name).c_str(), "");
  EXPECT_EQ(executorch::runtime::get_option("TensorRTBackend", {&wanted, 1}), Error::Ok) << name;
  const auto* text = std::get_if<std::array<char, executorch::runtime::kMaxOptionValueLength>>(&wanted.value);
  return text == nullptr ? "no text" : text->data();
}

FakeEngine add_one(int64_t scratch_bytes = 0) {
  FakeEngine engine;
  engine.input("x", "float32", {2})
      .output("y", "float32", {2})
      .linear("y", {"x"}, {}, 1)
      .engine_property("weight_bytes", "4096")
      .engine_property("scratch_bytes", std::to_string(scratch_bytes));
  return engine;
}

class StatsOptions : public FakeMachine {};

TEST_F(StatsOptions, CountWhatTheLoadedEnginesDid) {
  EXPECT_EQ(stat("engines"), "0");
  EXPECT_EQ(stat("calls"), "0");
  auto first = Delegate::load(add_one());
  auto second = Delegate::load(add_one());
  ASSERT_TRUE(first.ok() && second.ok());
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  ASSERT_EQ(first->run({x, y}), Error::Ok);
  ASSERT_EQ(second->run({x, y}), Error::Ok);
  ASSERT_EQ(second->run({x, y}), Error::Ok);
  EXPECT_EQ(stat("engines"), "2");
  EXPECT_EQ(stat("calls"), "3");
  EXPECT_EQ(stat("calls.plain"), "3");
  EXPECT_EQ(stat("calls.replay"), "0");
  EXPECT_EQ(stat("staged.inputs"), "3");
  EXPECT_EQ(stat("staged.outputs"), "3");
  EXPECT_EQ(stat("copied_bytes"), "48");
  EXPECT_EQ(stat("host_waits"), "3");
  EXPECT_EQ(stat("fallbacks"), "0");
}

TEST_F(StatsOptions, CountSharedScratchWhileSomebodyUsesIt) {
  {
    LoadRequest request;
    request.options.push_back(option("use_shared_activation_scratch", true));
    auto delegate = Delegate::load(add_one(1024), request);
    ASSERT_TRUE(delegate.ok());
    Floats x({2}, {1, 2});
    Floats y({2}, {0, 0});
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    EXPECT_EQ(stat("device.shared_scratch"), "1024");
    EXPECT_EQ(stat("device.scratch"), "0");
  }
  EXPECT_EQ(stat("device.shared_scratch"), "0");
}

TEST_F(StatsOptions, RefuseAnUnknownName) {
  const CapturedLog log;
  BackendOption unknown = text_option("stats.callz", "");
  EXPECT_EQ(executorch::runtime::get_option("TensorRTBackend", {&unknown, 1}), Error::InvalidArgument);
  EXPECT_TRUE(log.contains("TensorRTBackend has no option")) << log.text();
  EXPECT_TRUE(log.contains("stats.callz")) << log.text();
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
