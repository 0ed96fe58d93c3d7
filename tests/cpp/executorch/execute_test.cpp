// What an engine computes arrives, whatever the type, the shape and the kind of memory.

#include <gtest/gtest.h>

#include <numeric>

#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;

template <class T>
class ExecuteTyped : public FakeMachine {};

using AllTypes = ::testing::Types<float, Half, BFloat16, int8_t, uint8_t, int32_t, int64_t, bool>;
TYPED_TEST_SUITE(ExecuteTyped, AllTypes);

template <class T>
const char* dtype_name() {
  switch (scalar_type<T>()) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::Half:
      return "float16";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    default:
      return "bool";
  }
}

template <class T>
FakeEngine identity(const Sizes& shape) {
  FakeEngine engine;
  engine.input("x", dtype_name<T>(), shape).output("y", dtype_name<T>(), shape).linear("y", {"x"});
  return engine;
}

template <class T>
std::vector<T> samples(size_t count) {
  std::vector<T> values;
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      values.push_back(static_cast<T>(std::is_same_v<T, bool> ? i % 3 == 0 : i));
    } else {
      values.push_back(static_cast<T>(static_cast<float>(i)));
    }
  }
  return values;
}

TYPED_TEST(ExecuteTyped, ComputesOnEveryKindOfMemory) {
  using Test = TestTensor<TypeParam>;
  for (const auto in : {Test::Kind::kHost, Test::Kind::kPinned, Test::Kind::kDevice, Test::Kind::kManaged}) {
    for (const auto out :
         {Test::Kind::kHost, Test::Kind::kPinned, Test::Kind::kDevice, Test::Kind::kManaged}) {
      auto delegate = Delegate::load(identity<TypeParam>({2, 5}));
      ASSERT_TRUE(delegate.ok());
      Test x(in, {2, 5}, samples<TypeParam>(10));
      Test y(out, {2, 5}, std::vector<TypeParam>(10));
      ASSERT_EQ(delegate->run({x, y}), Error::Ok);
      EXPECT_EQ(y.values(), samples<TypeParam>(10));
    }
  }
}

TYPED_TEST(ExecuteTyped, HandlesScalarsAndEmptyTensors) {
  auto scalar = Delegate::load(identity<TypeParam>({}));
  ASSERT_TRUE(scalar.ok());
  TestTensor<TypeParam> x({}, {samples<TypeParam>(4)[3]});
  TestTensor<TypeParam> y({}, {TypeParam{}});
  ASSERT_EQ(scalar->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), x.values());

  auto empty = Delegate::load(identity<TypeParam>({0, 4}));
  ASSERT_TRUE(empty.ok());
  TestTensor<TypeParam> nothing({0, 4}, {});
  TestTensor<TypeParam> result({0, 4}, {});
  ASSERT_EQ(empty->run({nothing, result}), Error::Ok);
  EXPECT_EQ(result.sizes(), (std::vector<SizesType>{0, 4}));
}

class Execute : public FakeMachine {};

// A Jetson's GPU shares the host's memory: page-locked tensors are used where they lie, results are there on
// return, with a stream of the caller's too.
TEST_F(Execute, UsesPageLockedMemoryInPlaceOnAnIntegratedGpu) {
  using Test = TestTensor<float>;
  fake_cuda_set_integrated(0, 1);
  auto delegate = Delegate::load(identity<float>({2, 5}));
  ASSERT_TRUE(delegate.ok());
  for (const bool on_stream : {false, true}) {
    Test x(Test::Kind::kPinned, {2, 5}, samples<float>(10));
    Test y(Test::Kind::kPinned, {2, 5}, std::vector<float>(10));
    const long copies = fake_cuda_count("calls.cudaMemcpyAsync");
    if (on_stream) {
      tensorrt_executorch_set_caller_stream(cudaStreamPerThread);
    }
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    tensorrt_executorch_clear_caller_stream();
    EXPECT_EQ(y.values(), samples<float>(10)) << on_stream;
    EXPECT_EQ(fake_cuda_count("calls.cudaMemcpyAsync"), copies);
  }
}

TEST_F(Execute, StagesWhatAnIntegratedGpuCannotUseInPlace) {
  using Test = TestTensor<float>;
  fake_cuda_set_integrated(0, 1);
  auto delegate = Delegate::load(identity<float>({2, 5}));
  ASSERT_TRUE(delegate.ok());
  Memory<float> shifted(Memory<float>::Kind::kPinned, samples<float>(10), 0, 4);
  auto unaligned = executorch::extension::make_tensor_ptr({2, 5}, shifted.data());
  Test pageable(Test::Kind::kHost, {2, 5}, std::vector<float>(10));
  ASSERT_EQ(delegate->run({unaligned.get(), pageable}), Error::Ok);
  EXPECT_EQ(pageable.values(), samples<float>(10));
  ASSERT_EQ(delegate->run({pageable, unaligned.get()}), Error::Ok);
  EXPECT_EQ(shifted.values(), samples<float>(10));
}

TEST_F(Execute, KeepsInt64Exact) {
  FakeEngine engine;
  engine.input("x", "int64", {4}).output("y", "int64", {4}).linear("y", {"x"}, {}, 1);
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  TestTensor<int64_t> x(
      {4}, {int64_t{1} << 31, -(int64_t{1} << 31) - 1, int64_t{1} << 40, (int64_t{1} << 53) + 1});
  TestTensor<int64_t> y({4}, std::vector<int64_t>(4));
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<int64_t>{(int64_t{1} << 31) + 1, -(int64_t{1} << 31),
                                              (int64_t{1} << 40) + 1, (int64_t{1} << 53) + 2}));
}

// The blob lists b, c, a; the engine's own order is another one; all shapes are equal.
TEST_F(Execute, BindsInputsByNameNotByOrder) {
  FakeEngine engine;
  engine.input("a", "float32", {2})
      .output("y", "float32", {2})
      .input("c", "float32", {2})
      .input("b", "float32", {2});
  engine.linear("y", {"a", "b", "c"}, {1, -2, 2});  // (c - b) * 2 + a
  engine.io_bindings(
      R"([{"name":"b","is_input":true},{"name":"c","is_input":true},{"name":"a","is_input":true},)"
      R"({"name":"y","is_input":false}])");
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> b({2}, {1, 2});
  TestTensor<float> c({2}, {5, 7});
  TestTensor<float> a({2}, {100, 200});
  TestTensor<float> y({2}, {0, 0});
  ASSERT_EQ(delegate->run({b, c, a, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{108, 210}));
}

TEST_F(Execute, BindsOutputsByNameAndGivesEachItsType) {
  FakeEngine engine;
  engine.output("half", "float16", {3}).input("x", "float32", {3}).output("total", "float32", {});
  engine.output("positive", "bool", {3}).output("whole", "int64", {3});
  engine.linear("half", {"x"}, {0.5})
      .operation("total", "sum", {"x"})
      .operation("positive", "greater", {"x"});
  engine.linear("whole", {"x"}, {10});
  engine.io_bindings(R"([{"name":"x","is_input":true},{"name":"whole"},{"name":"positive"},{"name":"total"},)"
                     R"({"name":"half"}])");
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> x({3}, {-1, 2, 4});
  TestTensor<int64_t> whole({3}, {0, 0, 0});
  TestTensor<bool> positive({3}, {false, false, false});
  TestTensor<float> total({}, {0});
  TestTensor<Half> half({3}, std::vector<Half>(3));
  ASSERT_EQ(delegate->run({x, whole, positive, total, half}), Error::Ok);
  EXPECT_EQ(whole.values(), (std::vector<int64_t>{-10, 20, 40}));
  EXPECT_EQ(positive.values(), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(total.values(), (std::vector<float>{5}));
  EXPECT_EQ(half.values(), (std::vector<Half>{-0.5f, 1.f, 2.f}));
}

TEST_F(Execute, InfersTheOrderFromNumberedNames) {
  FakeEngine engine;
  engine.input("in.1", "float32", {1}).input("in.0", "float32", {1}).output("out_1", "float32", {1});
  engine.output("out_0", "float32", {1})
      .linear("out_0", {"in.0"})
      .linear("out_1", {"in.1"})
      .io_bindings("[]");
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> first({1}, {10});
  TestTensor<float> second({1}, {20});
  TestTensor<float> y0({1}, {0});
  TestTensor<float> y1({1}, {0});
  ASSERT_EQ(delegate->run({first, second, y0, y1}), Error::Ok);
  EXPECT_EQ(y0.values()[0], 10);
  EXPECT_EQ(y1.values()[0], 20);
}

FakeEngine dynamic_add_one() {
  FakeEngine engine;
  engine.input("x", "float32", {-1, 2}, {{{0, 2}, {8, 2}}}).output("y", "float32", {-1, 2});
  engine.linear("y", {"x"}, {}, 1);
  return engine;
}

TEST_F(Execute, FollowsDynamicShapesUpAndDown) {
  auto delegate = Delegate::load(dynamic_add_one());
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> y({8, 2}, std::vector<float>(16));
  for (const SizesType rows : {1, 8, 2, 0, 8, 1}) {
    const auto count = static_cast<size_t>(rows) * 2;
    TestTensor<float> x({rows, 2}, std::vector<float>(count, static_cast<float>(rows)));
    ASSERT_EQ(delegate->run({x, y}), Error::Ok) << rows;
    EXPECT_EQ(y.sizes(), (std::vector<SizesType>{rows, 2}));
    EXPECT_EQ(y.values(), std::vector<float>(count, static_cast<float>(rows) + 1)) << rows;
  }
}

TEST_F(Execute, ConcatenatesAFullAndAnEmptyTensor) {
  FakeEngine engine;
  engine.input("a", "float32", {-1, 2}, {{{0, 2}, {4, 2}}})
      .input("b", "float32", {1, 2})
      .output("y", "float32", {-1, 2});
  engine.operation("y", "concat", {"a", "b"});
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> b({1, 2}, {8, 9});
  TestTensor<float> y({5, 2}, std::vector<float>(10));
  for (const SizesType rows : {3, 0, 3}) {
    TestTensor<float> a({rows, 2}, std::vector<float>(static_cast<size_t>(rows) * 2, 1));
    ASSERT_EQ(delegate->run({a, b, y}), Error::Ok);
    std::vector<float> expected(static_cast<size_t>(rows) * 2, 1);
    expected.insert(expected.end(), {8, 9});
    EXPECT_EQ(y.values(), expected);
  }
}

// ExecuTorch cannot change a tensor's rank, so a scalar may arrive as one element of rank 1.
TEST_F(Execute, DeliversAScalarIntoOneElementOfRankOne) {
  FakeEngine engine;
  engine.input("x", "float32", {3}).output("y", "float32", {}).operation("y", "sum", {"x"});
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> x({3}, {1, 2, 3});
  TestTensor<float> y({1}, {0});
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), std::vector<float>{6});
  EXPECT_EQ(y.sizes(), std::vector<SizesType>{1});
}

TEST_F(Execute, TakesUnalignedDeviceMemory) {
  using Test = TestTensor<float>;
  auto delegate = Delegate::load(dynamic_add_one());
  ASSERT_TRUE(delegate.ok());
  Test x(Test::Kind::kDevice, {2, 2}, {1, 2, 3, 4}, 0, 16);
  Test y(Test::Kind::kDevice, {2, 2}, {0, 0, 0, 0}, 0, 48);
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3, 4, 5}));
}

// ExecuTorch tags by plan, not by pointer: both lies occur.
TEST_F(Execute, BelievesTheAddressNotTheTag) {
  using executorch::aten::Device;
  using executorch::aten::DeviceType;
  auto delegate = Delegate::load(dynamic_add_one());
  ASSERT_TRUE(delegate.ok());
  Memory<float> host(Memory<float>::Kind::kHost, {1, 2});
  Memory<float> device(Memory<float>::Kind::kDevice, {0, 0});
  auto x = executorch::extension::make_tensor_ptr({1, 2}, host.data(), ScalarType::Float,
                                                  Device(DeviceType::CUDA, 0));
  auto y = executorch::extension::make_tensor_ptr({1, 2}, device.data(), ScalarType::Float,
                                                  Device(DeviceType::CPU));
  ASSERT_EQ(delegate->run({x.get(), y.get()}), Error::Ok);
  EXPECT_EQ(device.values(), (std::vector<float>{2, 3}));
}

TEST_F(Execute, AgreesWithItselfForAThousandCalls) {
  auto delegate = Delegate::load(dynamic_add_one());
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> y({8, 2}, std::vector<float>(16));
  for (int call = 0; call < 1000; ++call) {
    const SizesType rows = call * 7 % 9;
    TestTensor<float> x({rows, 2},
                        std::vector<float>(static_cast<size_t>(rows) * 2, static_cast<float>(call)));
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    ASSERT_EQ(y.values(), std::vector<float>(static_cast<size_t>(rows) * 2, static_cast<float>(call) + 1));
  }
}

TEST_F(Execute, RunsAnEngineOfTensorRT) {
  FakeEngine engine = dynamic_add_one();
  engine.family(FakeEngine::Family::kTensorRT, 110400);
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> x({1, 2}, {1, 2});
  TestTensor<float> y({1, 2}, {0, 0});
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
}

TEST_F(Execute, RunsAnEngineWithScratchMemory) {
  FakeEngine engine = dynamic_add_one();
  engine.engine_property("scratch_bytes", "4096").engine_property("weight_bytes", "1000");
  auto delegate = Delegate::load(engine);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> x({1, 2}, {1, 2});
  TestTensor<float> y({1, 2}, {0, 0});
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
