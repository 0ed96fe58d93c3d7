// Wrong tensors are refused before anything runs; the next right call works.

#include <executorch/runtime/core/evalue.h>
#include <gtest/gtest.h>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::extension::make_tensor_ptr;
using executorch::runtime::Error;
using executorch::runtime::EValue;

class RunRefusals : public FakeMachine {
 protected:
  void SetUp() override {
    FakeMachine::SetUp();
    FakeEngine engine;
    engine.input("image", "float32", {-1, 3, 2, 2}, {{{1, 3, 2, 2}, {4, 3, 2, 2}}})
        .input("bias", "int64", {3});
    engine.output("y", "float32", {-1, 3, 2, 2}).output("n", "int64", {3});
    engine.linear("y", {"image"}, {}, 1).linear("n", {"bias"}, {}, 1);
    auto loaded = Delegate::load(engine);
    ASSERT_TRUE(loaded.ok());
    delegate_ = std::make_unique<Delegate>(std::move(*loaded));
  }
  void TearDown() override {
    expect_ok_again();
    delegate_.reset();
    FakeMachine::TearDown();
  }

  void expect(const std::vector<Tensor*>& tensors, const std::vector<std::string>& parts,
              Error error = Error::InvalidArgument) {
    const CapturedLog log;
    const long before = fake_cuda_count("kernels");
    EXPECT_EQ(delegate_->run(tensors), error) << log.text();
    EXPECT_EQ(fake_cuda_count("kernels"), before) << "something ran";
    EXPECT_TRUE(log.contains("method \"forward\"")) << log.text();
    for (const std::string& part : parts) {
      EXPECT_TRUE(log.contains(part)) << "missing: " << part << "\nin: " << log.text();
    }
  }

  void expect_ok_again() {
    TestTensor<float> x({2, 3, 2, 2}, std::vector<float>(24, 5));
    TestTensor<float> y({4, 3, 2, 2}, std::vector<float>(48));
    ASSERT_EQ(delegate_->run({x, bias_, y, n_}), Error::Ok);
    EXPECT_EQ(y.values(), std::vector<float>(24, 6));
    EXPECT_EQ(n_.values(), (std::vector<int64_t>{2, 3, 4}));
  }

  std::unique_ptr<Delegate> delegate_;
  TestTensor<float> image_{{1, 3, 2, 2}, std::vector<float>(12)};
  TestTensor<int64_t> bias_{{3}, {1, 2, 3}};
  TestTensor<float> y_{{1, 3, 2, 2}, std::vector<float>(12)};
  TestTensor<int64_t> n_{{3}, {0, 0, 0}};
};

TEST_F(RunRefusals, TheWrongNumberOfArguments) {
  expect({}, {"gives the engine 0 tensors, but it has 2 inputs and 2 outputs"});
  expect({image_, bias_, y_}, {"gives the engine 3 tensors"});
  expect({image_, bias_, y_, n_, n_}, {"gives the engine 5 tensors"});
}

TEST_F(RunRefusals, AnArgumentThatIsNoTensor) {
  const CapturedLog log;
  std::vector<EValue> values = {EValue(*image_.get()), EValue(2.5), EValue(*y_.get()), EValue(*n_.get())};
  EXPECT_EQ(delegate_->run_values(values), Error::InvalidArgument);
  EXPECT_TRUE(log.contains("argument 1 of the engine is no tensor")) << log.text();
}

TEST_F(RunRefusals, TheWrongType) {
  TestTensor<int32_t> bias({3}, {1, 2, 3});
  expect({image_, bias, y_, n_}, {"input 'bias' is int32, but the engine needs int64", "Convert the tensor"});
  TestTensor<int64_t> y({1, 3, 2, 2}, std::vector<int64_t>(12));
  expect({image_, bias_, y, n_}, {"output 'y' is int64, but the engine needs float32"});
}

TEST_F(RunRefusals, TheWrongRank) {
  TestTensor<float> image({3, 2, 2}, std::vector<float>(12));
  expect({image, bias_, y_, n_}, {"input 'image' has 3 dimensions, but the engine needs 4: [1..4, 3, 2, 2]"});
  TestTensor<float> ninth({1, 1, 1, 1, 1, 1, 3, 2, 2}, std::vector<float>(12));
  expect({ninth, bias_, y_, n_}, {"input 'image' has 9 dimensions"});
  TestTensor<int64_t> scalar({}, {1});
  expect({image_, scalar, y_, n_}, {"input 'bias' has 0 dimensions, but the engine needs 1: [3]"});
}

TEST_F(RunRefusals, ASizeOutsideTheProfile) {
  TestTensor<float> large({5, 3, 2, 2}, std::vector<float>(60));
  expect({large, bias_, y_, n_},
         {"input 'image' has shape [5, 3, 2, 2], but the engine allows [1..4, 3, 2, 2]",
          "export with larger bounds"});
  TestTensor<float> none({0, 3, 2, 2}, {});
  expect({none, bias_, y_, n_}, {"has shape [0, 3, 2, 2], but the engine allows [1..4, 3, 2, 2]"});
  TestTensor<float> other({1, 3, 2, 3}, std::vector<float>(18));
  expect({other, bias_, y_, n_}, {"has shape [1, 3, 2, 3]"});
  TestTensor<int64_t> bias({4}, {1, 2, 3, 4});
  expect({image_, bias, y_, n_}, {"input 'bias' has shape [4], but the engine allows [3]"});
}

TEST_F(RunRefusals, MemoryInAnotherOrder) {
  auto channels_last = make_tensor_ptr(*image_.get(), {1, 3, 2, 2}, {0, 2, 3, 1}, {12, 1, 6, 3});
  expect({channels_last.get(), bias_, y_, n_},
         {"input 'image' has shape [1, 3, 2, 2] with strides (12, 1, 6, 3)", "Call .contiguous() first"});
  expect({image_, bias_, channels_last.get(), n_}, {"output 'y'", "contiguous"});
}

TEST_F(RunRefusals, NoMemory) {
  auto missing = make_tensor_ptr({1, 3, 2, 2}, nullptr);
  expect({missing.get(), bias_, y_, n_}, {"input 'image' has no memory"});
  expect({image_, bias_, missing.get(), n_}, {"output 'y' has no memory", "set the memory of its output"});
}

TEST_F(RunRefusals, AnOutputThatCannotGrow) {
  TestTensor<float> image({2, 3, 2, 2}, std::vector<float>(24));
  const CapturedLog log;
  EXPECT_NE(delegate_->run({image, bias_, y_, n_}), Error::Ok);
  EXPECT_TRUE(
      log.contains("the engine's output 'y' has shape [2, 3, 2, 2], but the program's tensor has shape "
                   "[1, 3, 2, 2] and cannot be resized"))
      << log.text();
}

TEST_F(RunRefusals, MemoryOfAnotherGpu) {
  using Floats = TestTensor<float>;
  Floats elsewhere(Floats::Kind::kDevice, {1, 3, 2, 2}, std::vector<float>(12), 1);
  expect({elsewhere, bias_, y_, n_},
         {"input 'image' is in the memory of GPU 1, but the engine runs on GPU 0", "cuda:1"});
  expect({image_, bias_, elsewhere, n_}, {"output 'y' is in the memory of GPU 1"});
}

TEST_F(RunRefusals, TensorRTsRefusals) {
  for (const char* call : {"tensorrt.set_input_shape", "tensorrt.infer_shapes", "tensorrt.set_tensor_address",
                           "tensorrt.enqueue"}) {
    TestTensor<float> x({3, 3, 2, 2}, std::vector<float>(36, 1));
    TestTensor<float> y({4, 3, 2, 2}, std::vector<float>(48));
    fake_cuda_fail(call, 1, cudaErrorUnknown);
    expect({x, bias_, y, n_}, {std::string("TensorRT says: injected failure of ") + call}, Error::Internal);
    expect_ok_again();
  }
}

TEST_F(RunRefusals, ARunWithoutALoadedEngine) {
  const CapturedLog log;
  executorch::runtime::BackendExecutionContext context;
  EXPECT_EQ(backend()->execute(context, nullptr, {}), Error::InvalidArgument);
  EXPECT_TRUE(log.contains("called without a loaded engine")) << log.text();
  backend()->destroy(nullptr);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
