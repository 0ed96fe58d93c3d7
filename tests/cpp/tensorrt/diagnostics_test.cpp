#include "tensorrt/diagnostics.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/cpp/support/captured_log.h"

namespace executorch::backends::tensorrt {
namespace {

using testing::CapturedLog;

TEST(Diagnostics, ErrorsOfTensorRTAreErrorsAndWarningsAreRemarks) {
  const CapturedLog log;
  logger().log(abi::Severity::kInternalError, "a");
  logger().log(abi::Severity::kError, "b");
  logger().log(abi::Severity::kWarning, "c");
  logger().log(abi::Severity::kVerbose, "d");
  EXPECT_EQ(log.errors(), (std::vector<std::string>{"TensorRT: a", "TensorRT: b"}));
  EXPECT_TRUE(log.contains("TensorRT warns: c"));
  EXPECT_FALSE(log.contains("TensorRT: d"));
}

TEST(Diagnostics, LongMessagesAreNotCut) {
  const CapturedLog log;
  const std::string message(5000, 'm');
  logger().log(abi::Severity::kError, message.c_str());
  EXPECT_EQ(log.errors().at(0), "TensorRT: " + message);
}

TEST(Diagnostics, CallbacksSayWhatTheyAre) {
  EXPECT_STREQ(logger().interface_info().kind, "ILogger");
  EXPECT_STREQ(error_recorder().interface_info().kind, "IErrorRecorder");
  EXPECT_EQ(logger().api_language(), 0);
  EXPECT_EQ(error_recorder().interface_info().major, 1);
}

TEST(Diagnostics, ReasonsAreJoinedAndTakenOnce) {
  take_reason();
  EXPECT_FALSE(error_recorder().report(3, "first"));
  EXPECT_FALSE(error_recorder().report(5, "second"));
  EXPECT_EQ(error_recorder().error_count(), 2);
  EXPECT_EQ(error_recorder().error_code(1), 5);
  EXPECT_STREQ(error_recorder().error_text(0), "first; second");
  EXPECT_STREQ(error_recorder().error_text(2), "");
  EXPECT_EQ(error_recorder().error_code(-1), 1);
  EXPECT_EQ(take_reason(), "first; second");
  EXPECT_EQ(take_reason(), "");
  EXPECT_EQ(error_recorder().error_count(), 0);
}

TEST(Diagnostics, EndlessErrorsDoNotFillTheMemory) {
  for (int i = 0; i < 10000; ++i) {
    error_recorder().report(1, "again and again");
  }
  EXPECT_TRUE(error_recorder().has_overflowed());
  EXPECT_LT(take_reason().size(), 3000u);
}

TEST(Diagnostics, AReasonBelongsToItsThread) {
  take_reason();
  std::thread([] {
    error_recorder().report(1, "elsewhere");
    EXPECT_EQ(take_reason(), "elsewhere");
  }).join();
  EXPECT_EQ(take_reason(), "");
}

TEST(Diagnostics, TheRecorderCountsItsUsers) {
  const int32_t first = error_recorder().add_reference();
  EXPECT_EQ(error_recorder().add_reference(), first + 1);
  EXPECT_EQ(error_recorder().drop_reference(), first);
  error_recorder().drop_reference();
}

}  // namespace
}  // namespace executorch::backends::tensorrt
