// Options of the file, of a load and of the process: what is refused, and which wins.

#include "engine/options.h"

#include <gtest/gtest.h>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendOption;
using executorch::runtime::CompileSpec;
using executorch::runtime::Span;
using Specs = std::vector<std::pair<std::string, std::string>>;

class Options : public FakeMachine {
 protected:
  void TearDown() override {
    set(option("use_shared_activation_scratch", false));
    FakeMachine::TearDown();
  }

  static Result<LoadOptions> read(const Specs& file, const std::vector<BackendOption>& load = {}) {
    std::vector<CompileSpec> specs;
    for (const auto& [key, value] : file) {
      specs.push_back({key.c_str(), {const_cast<char*>(value.data()), value.size()}});
    }
    return read_load_options(ArrayRef<CompileSpec>(specs.data(), specs.size()), {load.data(), load.size()});
  }

  static Error set(BackendOption value) { return set_process_options({&value, 1}); }
};

TEST_F(Options, BudgetsAreDecimalDigits) {
  EXPECT_EQ(read({})->weight_streaming_budget, std::nullopt);
  EXPECT_EQ(read({{"weight_streaming_budget", "0"}})->weight_streaming_budget, 0);
  EXPECT_EQ(read({{"weight_streaming_budget", "007"}})->weight_streaming_budget, 7);
  EXPECT_EQ(read({{"weight_streaming_budget", "9223372036854775807"}})->weight_streaming_budget,
            9223372036854775807);
  const std::string with_zero("1\0", 2);
  for (const std::string& bad :
       {std::string("-1"), std::string("9223372036854775808"), std::string(), std::string("1k"),
        std::string(" 1"), std::string("1 "), std::string("+1"), with_zero}) {
    const CapturedLog log;
    EXPECT_EQ(read({{"weight_streaming_budget", bad}}).error(), Error::InvalidProgram) << bad;
    EXPECT_TRUE(log.contains("weight_streaming_budget in the file is '")) << log.text();
    EXPECT_TRUE(log.contains("0 to 9223372036854775807, in decimal digits")) << log.text();
  }
}

TEST_F(Options, ValuesEndWhereTheirLengthSays) {
  const std::string longer = "12345";
  const CompileSpec spec{"weight_streaming_budget", {const_cast<char*>(longer.data()), 2}};
  EXPECT_EQ(read_load_options(ArrayRef<CompileSpec>(&spec, 1), {})->weight_streaming_budget, 12);
}

TEST_F(Options, AFileMayNotGiveOneTwice) {
  for (const auto& [key, value] : Specs{{"weight_streaming_budget", "1"},
                                        {"use_cuda_graphs", "1"},
                                        {"use_shared_activation_scratch", "1"},
                                        {"results_in_stream_order", "1"}}) {
    const CapturedLog log;
    EXPECT_EQ(read({{key, value}, {key, value}}).error(), Error::InvalidProgram);
    EXPECT_TRUE(log.contains("'" + key + "' in the file is given twice")) << log.text();
  }
}

TEST_F(Options, SwitchesInTheFileAreZeroOrOne) {
  EXPECT_TRUE(read({{"use_cuda_graphs", "1"}})->use_cuda_graphs);
  EXPECT_FALSE(read({{"use_cuda_graphs", "0"}})->use_cuda_graphs);
  for (const std::string& bad :
       {std::string(), std::string("2"), std::string("true"), std::string("01"), std::string("\1")}) {
    const CapturedLog log;
    EXPECT_EQ(read({{"use_cuda_graphs", bad}}).error(), Error::InvalidProgram);
    EXPECT_TRUE(log.contains("it must be 0 or 1")) << log.text();
  }
}

TEST_F(Options, UnknownKeysAreLeftToOthers) {
  EXPECT_TRUE(read({{"target_device", "cuda:0"}, {"partition_report", "{}"}}, {option("other", 1)}).ok());
}

TEST_F(Options, ALoadWinsOverTheFile) {
  EXPECT_EQ(read({{"weight_streaming_budget", "5"}}, {option("weight_streaming_budget", 9)})
                ->weight_streaming_budget,
            9);
  EXPECT_EQ(read({}, {text_option("weight_streaming_budget", "8589934592")})->weight_streaming_budget,
            8589934592);
  EXPECT_EQ(read({{"weight_streaming_budget", "5"}}, {text_option("weight_streaming_budget", "")})
                ->weight_streaming_budget,
            5);
  EXPECT_FALSE(read({{"use_cuda_graphs", "1"}}, {option("use_cuda_graphs", false)})->use_cuda_graphs);
  EXPECT_FALSE(read({}, {option("use_shared_engines", false)})->use_shared_engines);
  EXPECT_TRUE(read({})->use_shared_engines);
}

TEST_F(Options, ALoadsOptionsHaveTypes) {
  for (const BackendOption& bad :
       {option("use_cuda_graphs", 1), text_option("use_cuda_graphs", "1"), option("use_shared_engines", 0),
        text_option("use_shared_activation_scratch", "")}) {
    const CapturedLog log;
    EXPECT_EQ(read({}, {bad}).error(), Error::InvalidArgument);
    EXPECT_TRUE(log.contains(std::string("The load option ") + bad.key + " must be a bool")) << log.text();
  }
  for (const BackendOption& bad :
       {option("weight_streaming_budget", true), option("weight_streaming_budget", -1),
        text_option("weight_streaming_budget", "x")}) {
    const CapturedLog log;
    EXPECT_EQ(read({}, {bad}).error(), Error::InvalidProgram);
    EXPECT_TRUE(log.contains("weight_streaming_budget given at load is")) << log.text();
  }
}

TEST_F(Options, TheProcessGivesDefaults) {
  EXPECT_FALSE(read({})->use_shared_activation_scratch);
  ASSERT_EQ(set(option("use_shared_activation_scratch", true)), Error::Ok);
  EXPECT_TRUE(read({})->use_shared_activation_scratch);
  EXPECT_FALSE(read({}, {option("use_shared_activation_scratch", false)})->use_shared_activation_scratch);
}

TEST_F(Options, TheProcessIsSetWhollyOrNotAtAll) {
  std::vector<BackendOption> options = {option("use_shared_activation_scratch", true),
                                        option("use_cuda_graphs", 1)};
  const CapturedLog log;
  EXPECT_EQ(set_process_options({options.data(), options.size()}), Error::InvalidArgument);
  EXPECT_TRUE(log.contains("The option use_cuda_graphs must be a bool")) << log.text();
  EXPECT_FALSE(read({})->use_shared_activation_scratch);
}

TEST_F(Options, OfOneLoadAreNoOptionsOfTheProcess) {
  for (const BackendOption& bad :
       {option("use_shared_engines", true), text_option("weight_streaming_budget", "1")}) {
    const CapturedLog log;
    EXPECT_EQ(set(bad), Error::InvalidArgument);
    EXPECT_TRUE(log.contains("belongs to one load, not to the process")) << log.text();
  }
}

TEST_F(Options, AreReadBackThroughExecuTorch) {
  BackendOption library = text_option("tensorrt_library", "");
  ASSERT_EQ(executorch::runtime::get_option("TensorRTBackend", {&library, 1}), Error::Ok);
  const auto& text = std::get<std::array<char, executorch::runtime::kMaxOptionValueLength>>(library.value);
  EXPECT_NE(std::string(text.data()).find("libtensorrt_rtx.so.1"), std::string::npos);
  BackendOption unknown = option("unknown", true);
  const CapturedLog log;
  EXPECT_EQ(executorch::runtime::get_option("TensorRTBackend", {&unknown, 1}), Error::InvalidArgument);
  EXPECT_TRUE(log.contains("TensorRTBackend has no option 'unknown'")) << log.text();
}

FakeEngine streaming() {
  FakeEngine engine;
  engine.input("x", "float32", {1}).output("y", "float32", {1}).linear("y", {"x"});
  engine.engine_property("streamable_bytes", "1000");
  return engine;
}

TEST_F(Options, ABudgetIsSetBeforeTheContextAndClamped) {
  LoadRequest request;
  for (const char* budget : {"0", "500", "1000", "99999"}) {
    request.compile_specs = {{"weight_streaming_budget", budget}};
    EXPECT_TRUE(Delegate::load(streaming(), request).ok()) << budget;
  }
}

TEST_F(Options, ARefusedBudgetIsSaid) {
  LoadRequest request;
  request.compile_specs = {{"weight_streaming_budget", "500"}};
  fake_cuda_fail("tensorrt.set_weight_streaming_budget", 1, cudaErrorUnknown);
  const CapturedLog log;
  EXPECT_EQ(Delegate::load(streaming(), request).error(), Error::MemoryAllocationFailed);
  EXPECT_TRUE(log.contains("refused a weight streaming budget of 500 bytes (streamable weights: 1000 bytes)"))
      << log.text();
}

TEST_F(Options, AFailingAutomaticBudgetIsTriedAsZero) {
  fake_cuda_fail("tensorrt.set_weight_streaming_budget", 1, cudaErrorUnknown);
  EXPECT_TRUE(Delegate::load(streaming()).ok());
}

TEST_F(Options, ABudgetWithoutStreamableWeightsIsOnlyRemarkedOn) {
  FakeEngine engine;
  engine.input("x", "float32", {1}).output("y", "float32", {1}).linear("y", {"x"});
  LoadRequest request;
  request.compile_specs = {{"weight_streaming_budget", "500"}};
  const CapturedLog log;
  EXPECT_TRUE(Delegate::load(engine, request).ok());
  EXPECT_TRUE(log.contains("weight_streaming_budget has no effect")) << log.text();
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
