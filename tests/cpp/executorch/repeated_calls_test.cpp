// Calls with the tensors of the call before, which are bound already, and whatever may have changed about
// them.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "executorch/backends/tensorrt/caller_stream.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::extension::make_tensor_ptr;
using executorch::runtime::Error;
using Floats = TestTensor<float>;
using Kind = Floats::Kind;

class RepeatedCalls : public FakeMachine {
 protected:
  /// How often CUDA was asked what kind of memory an address is.
  static long looks() { return fake_cuda_count("calls.cudaPointerGetAttributes"); }
};

TEST_F(RepeatedCalls, LookAtTheirMemoryOnce) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  Floats x(Kind::kDevice, {2}, {1, 2});
  Floats y(Kind::kDevice, {2}, {0, 0});
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  const long before = looks();
  for (int call = 0; call < 5; ++call) {
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
    EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
  }
  EXPECT_EQ(looks(), before);
}

TEST_F(RepeatedCalls, MayDescribeTheSameMemoryByOtherTensors) {
  auto delegate = Delegate::load(add_one_to_up_to_8());
  ASSERT_TRUE(delegate.ok());
  Memory<float> in(Kind::kManaged, {1, 2});
  Memory<float> out(Kind::kManaged, {0, 0});
  long after_first = 0;
  for (int call = 0; call < 4; ++call) {
    in.data()[0] = static_cast<float>(call);
    auto x = make_tensor_ptr({2}, in.data());
    auto y = make_tensor_ptr({2}, out.data());
    ASSERT_EQ(delegate->run({x.get(), y.get()}), Error::Ok);
    EXPECT_EQ(out.data()[0], static_cast<float>(call) + 1);
    after_first = call == 0 ? looks() : after_first;
  }
  EXPECT_EQ(looks(), after_first);
}

TEST_F(RepeatedCalls, SeeThatAnAddressBecameHostMemory) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocManaged(&memory, 2 * sizeof(float), cudaMemAttachGlobal), cudaSuccess);
  auto* values = static_cast<float*>(memory);
  auto x = make_tensor_ptr({2}, values);
  Floats y(Kind::kDevice, {2}, {0, 0});
  for (const bool is_host : {false, true}) {
    if (is_host) {
      fake_cuda_turn_into_host_memory(memory);
    }
    for (int call = 0; call < 4; ++call) {
      values[0] = static_cast<float>(call);
      values[1] = 7;
      ASSERT_EQ(delegate->run({x.get(), y}), Error::Ok);
      EXPECT_EQ(y.values(), (std::vector<float>{static_cast<float>(call) + 1, 8}));
    }
  }
  EXPECT_EQ(fake_cuda_count("copies.host_to_device"), 1 + 4) << "that of y, then the staged ones";
  std::free(memory);
}

TEST_F(RepeatedCalls, SeeThatAResultMustBeWaitedFor) {
  auto delegate = Delegate::load(add_one_to_up_to_8());
  ASSERT_TRUE(delegate.ok());
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocManaged(&memory, 2 * sizeof(float), cudaMemAttachGlobal), cudaSuccess);
  auto y = make_tensor_ptr({2}, static_cast<float*>(memory));
  Floats x(Kind::kDevice, {2}, {1, 2});
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const CallerStreamGuard guard(stream);
  ASSERT_EQ(delegate->run({x, y.get()}), Error::Ok);
  ASSERT_EQ(delegate->run({x, y.get()}), Error::Ok);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  fake_cuda_turn_into_host_memory(memory);
  auto* values = static_cast<float*>(memory);
  values[0] = values[1] = 0;
  ASSERT_EQ(delegate->run({x, y.get()}), Error::Ok);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], 3);
  std::free(memory);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(RepeatedCalls, LookAgainWhereTheAllocationIsNotTold) {
  auto delegate = Delegate::load(add_one_to_up_to_8());
  ASSERT_TRUE(delegate.ok());
  Floats x(Kind::kDevice, {2}, {1, 2});
  Floats y(Kind::kDevice, {2}, {0, 0});
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  const long before = looks();
  fake_cuda_fail("cuPointerGetAttribute", 1, cudaErrorInvalidValue);
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_TRUE(fake_cuda_failed());
  EXPECT_EQ(looks(), before + 2);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
}

/// Everything that a call refuses about a tensor, at the address of one that was right.
TEST_F(RepeatedCalls, AreRefusedForWhatChangedAtTheSameAddress) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  Memory<float> in(Kind::kDevice, std::vector<float>(16));
  Floats y(Kind::kDevice, {2}, {0, 0});
  const auto right = make_tensor_ptr({2}, in.data());
  const auto wrong_type = make_tensor_ptr({2}, in.data(), ScalarType::Int);
  const auto too_long = make_tensor_ptr({9}, in.data());
  const auto other_rank = make_tensor_ptr({1, 2}, in.data());
  SizesType sizes[] = {2}, strides[] = {2};
  uint8_t order[] = {0};
  executorch::aten::TensorImpl description(ScalarType::Float, 1, sizes, in.data(), order, strides);
  Tensor strided(&description);
  const std::pair<Tensor*, const char*> refused[] = {{wrong_type.get(), "input 'x' is int32"},
                                                     {too_long.get(), "has shape [9]"},
                                                     {other_rank.get(), "has 2 dimensions"},
                                                     {&strided, "with strides (2)"}};
  for (const auto& [wrong, words] : refused) {
    ASSERT_EQ(delegate->run({right.get(), y}), Error::Ok);
    ASSERT_EQ(delegate->run({right.get(), y}), Error::Ok);
    const CapturedLog log;
    EXPECT_EQ(delegate->run({wrong, y}), Error::InvalidArgument);
    EXPECT_TRUE(log.contains(words)) << log.text();
  }
  ASSERT_EQ(delegate->run({right.get(), y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{1, 1}));
}

TEST_F(RepeatedCalls, GiveAnotherResultItsShape) {
  auto delegate = Delegate::load(add_one_to_up_to_8());
  ASSERT_TRUE(delegate.ok());
  Floats x(Kind::kDevice, {2}, {1, 2});
  Memory<float> out(Kind::kDevice, std::vector<float>(8));
  for (int call = 0; call < 3; ++call) {
    auto y = make_tensor_ptr({8}, out.data());  // with its largest shape, as a program plans it
    ASSERT_EQ(delegate->run({x, y.get()}), Error::Ok);
    ASSERT_EQ(y->numel(), 2) << call;
  }
}

TEST_F(RepeatedCalls, GoThroughBuffersForHostMemoryEveryTime) {
  auto delegate = Delegate::load(add_one_to_up_to_8(), with_graphs());
  ASSERT_TRUE(delegate.ok());
  for (const Kind kind : {Kind::kHost, Kind::kPinned}) {
    Floats x(kind, {2}, {0, 0});
    Floats y(kind, {2}, {0, 0});
    for (int call = 0; call < 4; ++call) {
      x.data()[1] = static_cast<float>(call);
      ASSERT_EQ(delegate->run({x, y}), Error::Ok);
      EXPECT_EQ(y.values(), (std::vector<float>{1, static_cast<float>(call) + 1}));
    }
  }
}

TEST_F(RepeatedCalls, MayLeaveOutWhatSharesAnInputsMemoryOrNot) {
  FakeEngine engine;
  engine.input("cache", "float32", {2}).aliased_output("updated", "float32", {2}, "cache");
  engine.linear("updated", {"cache"}, {1}, 1);
  engine.alias("updated", "cache");
  auto delegate = Delegate::load(engine, with_graphs());
  ASSERT_TRUE(delegate.ok());
  Floats cache(Kind::kDevice, {2}, {0, 10});
  Floats updated(Kind::kDevice, {2}, {0, 0});
  float count = 0;
  for (int round = 0; round < 3; ++round) {
    for (const bool left_out : {true, false}) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::vector<Tensor*> tensors =
            left_out ? std::vector<Tensor*>{cache} : std::vector<Tensor*>{cache, updated};
        ASSERT_EQ(delegate->run(tensors), Error::Ok);
        ++count;
        EXPECT_EQ(cache.values(), (std::vector<float>{count, 10 + count}));
        if (!left_out) {
          EXPECT_EQ(updated.values(), (std::vector<float>{count, 10 + count}));
        }
      }
    }
  }
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
