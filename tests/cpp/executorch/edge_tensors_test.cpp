// Tensors at the edges: no element or one, lengths that no vector width divides, sizes that depend on data.

#include <gtest/gtest.h>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::extension::make_tensor_ptr;
using executorch::runtime::Error;
using Floats = TestTensor<float>;

constexpr size_t kGuard = 64;  // elements before and after a result

/// A result in the middle of memory that nobody else may write.
template <class T>
class GuardedResult {
 public:
  using Kind = typename Memory<T>::Kind;

  GuardedResult(Kind kind, std::vector<SizesType> sizes, size_t count, T guard)
      : count_(count),
        guard_(guard),
        memory_(kind, std::vector<T>(count + 2 * kGuard, guard)),
        tensor_(make_tensor_ptr(std::move(sizes), memory_.data() + kGuard, scalar_type<T>())) {}

  Tensor* get() { return tensor_.get(); }
  std::vector<T> values() {
    const auto all = memory_.values();
    return {all.begin() + kGuard, all.begin() + kGuard + static_cast<std::ptrdiff_t>(count_)};
  }
  bool guard_is_whole() {
    const auto all = memory_.values();
    const std::vector<T> guard(kGuard, guard_);
    return std::vector<T>(all.begin(), all.begin() + kGuard) == guard &&
           std::vector<T>(all.end() - kGuard, all.end()) == guard;
  }

 private:
  size_t count_;
  T guard_;
  Memory<T> memory_;
  TensorPtr tensor_;
};

template <class T>
const char* dtype_name() {
  return std::is_same_v<T, bool> ? "bool" : std::is_same_v<T, int64_t> ? "int64" : "bfloat16";
}

template <class T>
class OddLengths : public FakeMachine {};

using OddTypes = ::testing::Types<bool, BFloat16, int64_t>;
TYPED_TEST_SUITE(OddLengths, OddTypes);

TYPED_TEST(OddLengths, ArriveWholeAndLeaveTheirNeighboursAlone) {
  using T = TypeParam;
  using Kind = typename Memory<T>::Kind;
  for (const size_t count : {1, 3, 17}) {
    FakeEngine engine;
    engine.input("x", dtype_name<T>(), {static_cast<int64_t>(count)})
        .output("y", dtype_name<T>(), {static_cast<int64_t>(count)})
        .linear("y", {"x"});
    auto delegate = Delegate::load(engine);
    ASSERT_TRUE(delegate.ok());
    std::vector<T> values(count, static_cast<T>(1));
    values.back() = static_cast<T>(0);
    for (const Kind kind : {Kind::kHost, Kind::kPinned, Kind::kDevice, Kind::kManaged}) {
      const auto size = static_cast<SizesType>(count);
      TestTensor<T> x(kind, {size}, values);
      GuardedResult<T> y(kind, {size}, count, static_cast<T>(1));
      ASSERT_EQ(delegate->run({x, y.get()}), Error::Ok);
      EXPECT_EQ(y.values(), values);
      EXPECT_TRUE(y.guard_is_whole()) << count;
    }
  }
}

/// Rows that may be none, a part that has nothing to do with them, and a sum over all rows.
FakeEngine maybe_empty() {
  FakeEngine engine;
  engine.input("x", "float32", {-1, 2}, {{{0, 2}, {8, 2}}}).input("w", "float32", {2});
  engine.output("y", "float32", {-1, 2}).output("v", "float32", {2}).output("total", "float32", {});
  engine.linear("y", {"x"}, {}, 1).linear("v", {"w"}, {2}).operation("total", "sum", {"x"});
  return engine;
}

class NoElements : public FakeMachine {
 protected:
  /// One call with `rows` rows of ones; without rows neither side has memory.
  static void expect(Delegate& delegate, Floats::Kind kind, SizesType rows) {
    const auto count = static_cast<size_t>(rows) * 2;
    Floats x(kind, {rows, 2}, std::vector<float>(count, 1));
    const auto nothing = make_tensor_ptr({0, 2}, static_cast<void*>(nullptr), ScalarType::Float);
    GuardedResult<float> y(kind, {rows, 2}, count, 7);
    Floats w(kind, {2}, {3, 4});
    Floats v(kind, {2}, {0, 0});
    Floats total(kind, {}, {9});
    ASSERT_EQ(
        delegate.run({rows == 0 ? nothing.get() : x.get(), w, rows == 0 ? nothing.get() : y.get(), v, total}),
        Error::Ok);
    EXPECT_EQ(y.values(), std::vector<float>(count, 2));
    EXPECT_TRUE(y.guard_is_whole());
    EXPECT_EQ(v.values(), (std::vector<float>{6, 8})) << "the rest is computed all the same";
    EXPECT_EQ(total.values()[0], static_cast<float>(count)) << "a sum over nothing is zero";
  }
};

TEST_F(NoElements, ComeAndGoOnEveryKindOfMemory) {
  using Kind = Floats::Kind;
  for (const char* graphs : {"0", "1"}) {
    LoadRequest request;
    request.compile_specs = {{"use_cuda_graphs", graphs}};
    auto delegate = Delegate::load(maybe_empty(), request);
    ASSERT_TRUE(delegate.ok());
    for (const Kind kind : {Kind::kHost, Kind::kPinned, Kind::kDevice, Kind::kManaged}) {
      for (const SizesType rows : {3, 0, 3, 0, 0, 0, 8}) {
        expect(*delegate, kind, rows);
      }
    }
  }
}

TEST_F(NoElements, AreNotCopied) {
  FakeEngine engine;
  engine.input("x", "float32", {-1, 4}, {{{0, 4}, {8, 4}}})
      .output("y", "float32", {-1, 4})
      .linear("y", {"x"});
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  const auto copies_and_looks = [&](SizesType rows) {
    Floats x({rows, 4}, std::vector<float>(static_cast<size_t>(rows) * 4));
    Floats y({8, 4}, std::vector<float>(32));
    const long copies = fake_cuda_count("calls.cudaMemcpyAsync");
    const long looks = fake_cuda_count("calls.cudaPointerGetAttributes");
    EXPECT_EQ(delegate->run({x, y}), Error::Ok);
    return std::pair(fake_cuda_count("calls.cudaMemcpyAsync") - copies,
                     fake_cuda_count("calls.cudaPointerGetAttributes") - looks);
  };
  EXPECT_EQ(copies_and_looks(2), std::pair(2L, 2L));
  EXPECT_EQ(copies_and_looks(0), std::pair(0L, 0L)) << "there is no memory to ask about";
}

class SizesFromData : public FakeMachine {};

TEST_F(SizesFromData, AreRefusedByNameAndNothingRuns) {
  FakeEngine engine;
  engine.input("x", "float32", {4}).output("hits", "int64", {-1}).operation("hits", "full", {"x"});
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  Floats x({4}, {1, 2, 3, 4});
  TestTensor<int64_t> hits({4}, {7, 7, 7, 7});
  const long kernels = fake_cuda_count("kernels");
  for (int call = 0; call < 2; ++call) {
    const CapturedLog log;
    EXPECT_EQ(delegate->run({x, hits}), Error::NotSupported);
    EXPECT_TRUE(
        log.contains("method \"forward\": the shape of output 'hits', [-1], depends on data, which is "
                     "not supported. Keep that operator outside the engine."))
        << log.text();
  }
  EXPECT_EQ(fake_cuda_count("kernels"), kernels);
  EXPECT_EQ(hits.values(), (std::vector<int64_t>{7, 7, 7, 7}));
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
