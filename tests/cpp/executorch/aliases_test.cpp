// Outputs that share memory with an input: both argument layouts, and what cannot be.

#include <gtest/gtest.h>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Floats = TestTensor<float>;

/// A key-value cache of four rows: row `position` becomes `row`, and `total` sums what the engine read.
FakeEngine cache_step() {
  FakeEngine engine;
  engine.input("cache", "float32", {4, 2}).input("row", "float32", {1, 2}).input("position", "int64", {1});
  engine.aliased_output("new_cache", "float32", {4, 2}, "cache").output("total", "float32", {});
  engine.operation("new_cache", "update", {"cache", "row", "position"}).operation("total", "sum", {"cache"});
  engine.alias("new_cache", "cache");
  return engine;
}

class Aliases : public FakeMachine {
 protected:
  Floats cache_{Floats::Kind::kDevice, {4, 2}, std::vector<float>(8, 0)};
  Floats total_{{}, {0}};
};

// The engine writes through the input, and the result is copied to the output.
TEST_F(Aliases, AreCopiedToTheirOutputWhenItIsGiven) {
  auto delegate = Delegate::load(cache_step());
  ASSERT_TRUE(delegate.ok());
  TestTensor<int64_t> position({1}, {1});
  Floats row({1, 2}, {5, 6});
  for (const auto kind : {Floats::Kind::kHost, Floats::Kind::kPinned, Floats::Kind::kDevice}) {
    Floats result(kind, {4, 2}, std::vector<float>(8, -1));
    ASSERT_EQ(delegate->run({cache_, row, position, result, total_}), Error::Ok);
    EXPECT_EQ(result.values(), (std::vector<float>{0, 0, 5, 6, 0, 0, 0, 0}));
    EXPECT_EQ(cache_.values(), result.values());
  }
}

TEST_F(Aliases, NeedNoCopyWhenTheOutputIsTheInput) {
  auto delegate = Delegate::load(cache_step());
  ASSERT_TRUE(delegate.ok());
  TestTensor<int64_t> position({1}, {2});
  Floats row({1, 2}, {5, 6});
  const long copies = fake_cuda_count("copies.device_to_device");
  ASSERT_EQ(delegate->run({cache_, row, position, cache_, total_}), Error::Ok);
  EXPECT_EQ(fake_cuda_count("copies.device_to_device"), copies);
  EXPECT_EQ(cache_.values(), (std::vector<float>{0, 0, 0, 0, 5, 6, 0, 0}));
}

TEST_F(Aliases, MayBeLeftOut) {
  auto delegate = Delegate::load(cache_step());
  ASSERT_TRUE(delegate.ok());
  const long copies = fake_cuda_count("copies.device_to_device");
  for (int64_t step = 0; step < 4; ++step) {
    TestTensor<int64_t> position({1}, {step});
    Floats row({1, 2}, {1, 1});
    ASSERT_EQ(delegate->run({cache_, row, position, total_}), Error::Ok);
    EXPECT_EQ(total_.values()[0], static_cast<float>(2 * step + 2)) << "each step depends on those before";
  }
  EXPECT_EQ(fake_cuda_count("copies.device_to_device"), copies);
}

TEST_F(Aliases, RefuseAnyOtherNumberOfArguments) {
  auto delegate = Delegate::load(cache_step());
  ASSERT_TRUE(delegate.ok());
  TestTensor<int64_t> position({1}, {0});
  Floats row({1, 2}, {1, 1});
  const CapturedLog log;
  EXPECT_EQ(delegate->run({cache_, row, position}), Error::InvalidArgument);
  EXPECT_TRUE(log.contains(
      "gives the engine 3 tensors, but it has 3 inputs and 2 outputs (1 without those that share"))
      << log.text();
}

TEST_F(Aliases, RefuseHostMemoryAsTheSharedInput) {
  auto delegate = Delegate::load(cache_step());
  ASSERT_TRUE(delegate.ok());
  TestTensor<int64_t> position({1}, {0});
  Floats row({1, 2}, {1, 1});
  for (const auto kind : {Floats::Kind::kHost, Floats::Kind::kPinned}) {
    Floats host(kind, {4, 2}, std::vector<float>(8));
    const CapturedLog log;
    EXPECT_EQ(delegate->run({host, row, position, total_}), Error::InvalidArgument);
    EXPECT_TRUE(log.contains("updates input 'cache' in place, so it must be memory of GPU 0")) << log.text();
  }
}

// The engine does not know of the alias; the user has declared it.
TEST_F(Aliases, OfTheUserBindTheOutputToTheInput) {
  FakeEngine engine;
  engine.input("state", "float32", {2}).output("next", "float32", {2}).linear("next", {"state"}, {}, 1);
  engine.alias("next", "state", "user");
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  Floats state(Floats::Kind::kDevice, {2}, {1, 2});
  ASSERT_EQ(delegate->run({state}), Error::Ok);
  ASSERT_EQ(delegate->run({state}), Error::Ok);
  EXPECT_EQ(state.values(), (std::vector<float>{3, 4}));
}

void expect_refused(const FakeEngine& engine, const std::string& part) {
  const CapturedLog log;
  EXPECT_EQ(Delegate::load(engine).error(), Error::InvalidProgram);
  EXPECT_TRUE(log.contains(part)) << log.text();
}

TEST_F(Aliases, MustAgreeWithTheEngine) {
  FakeEngine unrecorded;
  unrecorded.input("a", "float32", {2}).aliased_output("y", "float32", {2}, "a").linear("y", {"a"});
  expect_refused(unrecorded,
                 "output 'y' shares memory with 'a' in the engine, but with no input in the file");

  FakeEngine other;
  other.input("a", "float32", {2}).input("b", "float32", {2}).aliased_output("y", "float32", {2}, "a");
  other.linear("y", {"a", "b"}).alias("y", "b");
  expect_refused(other, "output 'y' shares memory with 'a' in the engine, but with 'b' in the file");

  FakeEngine invented;
  invented.input("a", "float32", {2}).output("y", "float32", {2}).linear("y", {"a"}).alias("y", "a");
  expect_refused(invented, "shares memory with no input in the engine, but with 'a' in the file");
}

TEST_F(Aliases, MustHaveOneTypeAndShape) {
  FakeEngine type;
  type.input("a", "float32", {2}).output("y", "int32", {2}).linear("y", {"a"}).alias("y", "a", "user");
  expect_refused(type, "output 'y' cannot share memory with input 'a'");
  FakeEngine shape;
  shape.input("a", "float32", {2})
      .output("y", "float32", {})
      .operation("y", "sum", {"a"})
      .alias("y", "a", "user");
  expect_refused(shape, "output 'y' cannot share memory with input 'a'");
}

TEST_F(Aliases, AreReadUnderNamesThatLookLikeKeys) {
  FakeEngine engine;
  engine.input("aliased_io", "float32", {1}).aliased_output("io_bindings", "float32", {1}, "aliased_io");
  engine.linear("io_bindings", {"aliased_io"}, {}, 1).alias("io_bindings", "aliased_io");
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  Floats state(Floats::Kind::kDevice, {1}, {1});
  ASSERT_EQ(delegate->run({state}), Error::Ok);
  EXPECT_EQ(state.values()[0], 2);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
