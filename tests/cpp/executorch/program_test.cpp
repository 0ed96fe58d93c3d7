// Whole programs, through ExecuTorch's Module: planned device memory, copies around engines, several engines
// and methods.

#include <executorch/extension/module/module.h>
#include <executorch/runtime/core/device_allocator.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "executorch/backends/tensorrt/checked_module.h"
#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/machine.h"
#include "tests/cpp/support/tensors.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::extension::make_tensor_ptr;
using executorch::extension::Module;
using executorch::runtime::Error;
using executorch::runtime::EValue;

std::string program(const std::string& name) { return std::string(TEST_PROGRAMS_DIR) + "/" + name + ".pte"; }

std::vector<float> floats(const EValue& value) {
  const Tensor& tensor = value.toTensor();
  const auto* data = tensor.const_data_ptr<float>();
  return {data, data + tensor.numel()};
}

TensorPtr counting(std::vector<SizesType> sizes) {
  size_t count = 1;
  for (const SizesType size : sizes) {
    count *= static_cast<size_t>(size);
  }
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.f);
  return make_tensor_ptr(std::move(sizes), std::move(values));
}

/// A tensor on `values` in a given order of the dimensions.
TensorPtr ordered(std::vector<SizesType> sizes, std::vector<executorch::aten::DimOrderType> order,
                  std::vector<float>& values) {
  return executorch::extension::make_tensor_ptr(std::move(sizes), values.data(), std::move(order), {});
}

class Layouts : public FakeMachine {};

// What the programs compute depends on where an element stands: see tests/fakes/make_programs.py.
TEST_F(Layouts, ACheckedModuleRefusesAnotherDimOrderThanTheProgramsAndTakesTheRightOne) {
  const std::vector<executorch::aten::DimOrderType> plain{0, 1, 2, 3};
  const std::vector<executorch::aten::DimOrderType> channels_last{0, 2, 3, 1};
  for (const auto& [name, right, wrong] : {std::tuple("layout_plain", plain, channels_last),
                                           std::tuple("layout_channels_last", channels_last, plain)}) {
    CheckedModule module(program(name));
    const auto meta = module.method_meta("forward");
    ASSERT_TRUE(meta.ok());
    const auto info = meta->input_tensor_meta(0);
    std::vector<SizesType> sizes(info->sizes().begin(), info->sizes().end());
    std::vector<float> values(info->nbytes() / sizeof(float), 1.f);
    const CapturedLog log;
    EXPECT_EQ(module.forward(ordered(sizes, wrong, values)).error(), Error::InvalidArgument) << name;
    EXPECT_TRUE(log.contains("Input 0 of method \"forward\" has dim order (0, ")) << log.text();
    EXPECT_TRUE(log.contains("Lay the tensor out in that order")) << log.text();
    EXPECT_TRUE(module.forward(ordered(sizes, right, values)).ok()) << name;
  }
}

// No element lies elsewhere for it.
TEST_F(Layouts, ADimensionOfOneElementMayStandAnywhere) {
  CheckedModule module(program("layout_one_channel"));
  std::vector<float> values(2 * 4 * 5, 1.f);
  EXPECT_TRUE(module.forward(ordered({2, 1, 4, 5}, {0, 2, 3, 1}, values)).ok());
  EXPECT_EQ(module.forward(ordered({2, 1, 4, 5}, {0, 1, 3, 2}, values)).error(), Error::InvalidArgument);
}

TEST_F(Layouts, ACheckedModuleLeavesOtherMistakesToExecuTorch) {
  CheckedModule module(program("add_one"));
  const TensorPtr x = counting({2, 3});
  EXPECT_TRUE(module.forward(x).ok());
  EXPECT_FALSE(module.forward(counting({2, 3, 1})).ok());
  EXPECT_FALSE(module.execute("missing", {EValue(*x)}).ok());
}

class Programs : public FakeMachine {
 protected:
  static void expect(Module& module, const std::string& method, std::vector<SizesType> sizes,
                     const std::function<float(float)>& function) {
    const TensorPtr x = counting(std::move(sizes));
    const auto result = module.execute(method, {EValue(*x)});
    ASSERT_TRUE(result.ok());
    const std::vector<float> y = floats((*result)[0]);
    ASSERT_EQ(y.size(), static_cast<size_t>(x->numel()));
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_FLOAT_EQ(y[i], function(static_cast<float>(i + 1))) << i;
    }
  }
};

TEST_F(Programs, OwnsTheDeviceMemoryOfTheStockRuntime) {
  EXPECT_TRUE(tensorrt_executorch_owns_device_allocator());
  EXPECT_EQ(tensorrt_executorch_registration_error(), 0);
  EXPECT_NE(executorch::runtime::get_device_allocator(executorch::runtime::etensor::DeviceType::CUDA),
            nullptr);
}

TEST_F(Programs, RunOneEngineWithHostTensors) {
  Module module(program("add_one"));
  for (int call = 0; call < 3; ++call) {
    expect(module, "forward", {2, 3}, [](float x) { return x + 1; });
  }
}

TEST_F(Programs, RunWithoutADeviceTag) {
  Module module(program("host_only"));
  expect(module, "forward", {2, 3}, [](float x) { return x + 1; });
}

TEST_F(Programs, BringTheKernelsOfTheirEngines) {
  using Mode = Module::LoadMode;
  for (const Mode mode : {Mode::File, Mode::Mmap, Mode::MmapUseMlock}) {
    const long before = fake_cuda_count("live.tensorrt_compilations");
    const CapturedLog log;
    Module module(program("with_kernels"), mode);
    expect(module, "forward", {2, 3}, [](float x) { return x * 2 + 1; });
    EXPECT_EQ(fake_cuda_count("live.tensorrt_compilations"), before) << log.text();
    EXPECT_TRUE(log.errors().empty()) << log.text();
    EXPECT_TRUE(std::filesystem::is_empty(kernel_folder()));
  }
}

TEST_F(Programs, RunOnTheSecondGpu) {
  Module module(program("second_gpu"));
  expect(module, "forward", {2, 3}, [](float x) { return x + 1; });
}

TEST_F(Programs, RunAChainOfEngines) {
  Module module(program("chain"));
  for (int call = 0; call < 3; ++call) {
    expect(module, "forward", {2, 3}, [](float x) { return (x * 2 + 1) * 3; });
  }
}

TEST_F(Programs, RunAnOperatorOnTheCpuBetweenEngines) {
  Module module(program("around_cpu"));
  for (int call = 0; call < 3; ++call) {
    expect(module, "forward", {2, 3}, [](float x) { return std::sin(x * 2) + 1; });
  }
}

TEST_F(Programs, FollowDynamicShapes) {
  Module module(program("dynamic"));
  for (const SizesType rows : {4, 8, 2, 3, 8}) {
    expect(module, "forward", {rows, 3}, [](float x) { return x * 2 + 1; });
  }
}

TEST_F(Programs, RefuseAShapeAboveTheBounds) {
  Module module(program("dynamic"));
  const CapturedLog log;
  EXPECT_FALSE(module.forward({EValue(*counting({9, 3}))}).ok());
  expect(module, "forward", {2, 3}, [](float x) { return x * 2 + 1; });
}

TEST_F(Programs, GiveOutputsOfSeveralTypes) {
  Module module(program("mixed"));
  const TensorPtr x = counting({2, 3});
  const TensorPtr n = make_tensor_ptr({2}, std::vector<int64_t>{int64_t{1} << 40, -7});
  const auto result = module.forward({EValue(*x), EValue(*n)});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(floats((*result)[0]), (std::vector<float>{2, 3, 4, 5, 6, 7}));
  const auto* doubled = (*result)[1].toTensor().const_data_ptr<int64_t>();
  EXPECT_EQ(doubled[0], int64_t{1} << 41);
  EXPECT_EQ(doubled[1], -14);
  EXPECT_EQ((*result)[2].toTensor().dim(), 0);
  EXPECT_EQ(floats((*result)[2]), std::vector<float>{21});
}

TEST_F(Programs, HaveSeveralMethods) {
  Module module(program("two_methods"));
  for (int call = 0; call < 2; ++call) {
    expect(module, "forward", {2, 3}, [](float x) { return x + 1; });
    expect(module, "double", {4}, [](float x) { return x * 2; });
  }
}

TEST_F(Programs, LiveAndDieInAnyOrder) {
  auto first = std::make_unique<Module>(program("chain"));
  auto second = std::make_unique<Module>(program("chain"));
  expect(*first, "forward", {2, 3}, [](float x) { return (x * 2 + 1) * 3; });
  expect(*second, "forward", {2, 3}, [](float x) { return (x * 2 + 1) * 3; });
  first.reset();
  expect(*second, "forward", {2, 3}, [](float x) { return (x * 2 + 1) * 3; });
  first = std::make_unique<Module>(program("add_one"));
  second.reset();
  expect(*first, "forward", {2, 3}, [](float x) { return x + 1; });
}

TEST_F(Programs, RunOnThreadsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int round = 0; round < 5; ++round) {
        Module module(program("around_cpu"));
        expect(module, "forward", {2, 3}, [](float x) { return std::sin(x * 2) + 1; });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(Programs, AreRefusedWithoutTheirGpu) {
  const CapturedLog log;
  Module module(program("missing_gpu"));
  EXPECT_NE(module.load_method("forward"), Error::Ok);
  EXPECT_TRUE(log.contains("cudaSetDevice failed: invalid device ordinal") ||
              log.contains("exported for GPU 7"))
      << log.text();
}

TEST_F(Programs, AreRefusedWithoutADriver) {
  fake_cuda_set_devices(-1);
  const CapturedLog log;
  Module module(program("host_only"));
  EXPECT_NE(module.load_method("forward"), Error::Ok);
  EXPECT_TRUE(log.contains("install driver 580 or newer")) << log.text();
}

TEST_F(Programs, AreRefusedWithTooLittleMemory) {
  fake_cuda_set_memory(10);
  const CapturedLog log;
  Module module(program("add_one"));
  EXPECT_NE(module.load_method("forward"), Error::Ok);
  EXPECT_TRUE(log.contains("out of memory")) << log.text();
  EXPECT_TRUE(log.contains("bytes of memory on GPU 0 for its planned buffers")) << log.text();
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
