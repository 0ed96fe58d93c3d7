// Calls of a loaded delegate by its handle, as Python makes them.

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "executorch/direct_call_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Floats = Memory<float>;

struct Destroy {
  void operator()(tensorrt_executorch_direct_call* call) const { tensorrt_executorch_direct_destroy(call); }
};
using Call = std::unique_ptr<tensorrt_executorch_direct_call, Destroy>;

class DirectCalls : public FakeMachine {
 protected:
  static constexpr int kFloat = static_cast<int>(ScalarType::Float);

  static Call create(const std::vector<tensorrt_executorch_direct_tensor>& tensors,
                     void* handle = last_load()) {
    tensorrt_executorch_direct_call* call = nullptr;
    error_ = tensorrt_executorch_direct_create(handle, tensors.data(), tensors.size(), &call);
    return Call(call);
  }
  static void* last_load() {
    void* handle = nullptr;
    tensorrt_executorch_last_load(&handle);
    return handle;
  }
  static uint64_t loads() {
    void* handle = nullptr;
    return tensorrt_executorch_last_load(&handle);
  }

  static inline int error_ = 0;
};

TEST_F(DirectCalls, RunOnMemoryThatMoves) {
  for (const auto kind : {Floats::Kind::kHost, Floats::Kind::kPinned, Floats::Kind::kDevice}) {
    auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
    ASSERT_TRUE(delegate.ok());
    Floats a(kind, {1, 2, 3}), b(kind, {4, 5, 6}), y(kind, {0, 0, 0});
    const int64_t sizes[] = {3};
    const Call call = create({{kFloat, 1, sizes, a.data()}, {kFloat, 1, sizes, y.data()}});
    ASSERT_NE(call, nullptr);
    for (int round = 0; round < 4; ++round) {
      tensorrt_executorch_direct_move(call.get(), 0, a.data());
      ASSERT_EQ(tensorrt_executorch_direct_run(call.get()), 0);
      EXPECT_EQ(y.values(), (std::vector<float>{2, 3, 4}));
      tensorrt_executorch_direct_move(call.get(), 0, b.data());
      ASSERT_EQ(tensorrt_executorch_direct_run(call.get()), 0);
      EXPECT_EQ(y.values(), (std::vector<float>{5, 6, 7}));
    }
  }
}

TEST_F(DirectCalls, AreRefusedByTheEngineLikeOthers) {
  auto delegate = Delegate::load(add_one_to_up_to_8());
  ASSERT_TRUE(delegate.ok());
  Floats x(Floats::Kind::kDevice, std::vector<float>(9)), y(Floats::Kind::kDevice, std::vector<float>(9));
  const int64_t sizes[] = {9};
  const Call call = create({{kFloat, 1, sizes, x.data()}, {kFloat, 1, sizes, y.data()}});
  ASSERT_NE(call, nullptr);
  const CapturedLog log;
  EXPECT_EQ(tensorrt_executorch_direct_run(call.get()), static_cast<int>(Error::InvalidArgument));
  EXPECT_TRUE(log.contains("has shape [9], but the engine allows [1..8]")) << log.text();
}

TEST_F(DirectCalls, NeedADelegateAndSizesThatExecuTorchHas) {
  auto delegate = Delegate::load(add_one_to_up_to_8());
  ASSERT_TRUE(delegate.ok());
  float x = 0;
  for (const int64_t size : {int64_t{-1}, int64_t{1} << 31}) {
    const CapturedLog log;
    EXPECT_EQ(create({{kFloat, 1, &size, &x}}), nullptr);
    EXPECT_EQ(error_, static_cast<int>(Error::InvalidArgument));
    EXPECT_TRUE(log.contains("sizes have 31 bits. Call the method through ExecuTorch")) << log.text();
  }
  const CapturedLog log;
  EXPECT_EQ(create({}, nullptr), nullptr);
  EXPECT_TRUE(log.contains("A direct call needs a loaded delegate")) << log.text();
}

TEST_F(DirectCalls, KnowTheLastLoadOfTheirThread) {
  const uint64_t before = loads();
  auto first = Delegate::load(add_one_to_up_to_8());
  ASSERT_TRUE(first.ok());
  void* const handle_of_first = last_load();
  EXPECT_EQ(loads(), before + 1);
  {
    const CapturedLog log;
    EXPECT_FALSE(Delegate::load(std::vector<uint8_t>(100)).ok());
  }
  std::thread([&] {
    EXPECT_EQ(loads(), 0);
    EXPECT_TRUE(Delegate::load(add_one_to_up_to_8()).ok());
    EXPECT_EQ(loads(), 1);
  }).join();
  EXPECT_EQ(loads(), before + 1) << "neither a failed load nor one of another thread";
  EXPECT_EQ(last_load(), handle_of_first);
  auto second = Delegate::load(add_one_to_up_to_8());
  EXPECT_EQ(loads(), before + 2);
  EXPECT_NE(last_load(), handle_of_first);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
