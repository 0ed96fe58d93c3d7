// What the library tells about itself, the machine and its engines.

#include "executorch/c_api.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tensorrt/library_search.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Facts = std::map<std::string, std::string>;

Facts describe() {
  Facts facts;
  tensorrt_executorch_describe(
      [](void* context, const char* key, const char* value) { (*static_cast<Facts*>(context))[key] = value; },
      &facts);
  return facts;
}

std::vector<Facts> stats() {
  std::vector<Facts> engines;
  tensorrt_executorch_visit_stats(
      [](void* context, size_t engine, const char* key, const char* value) {
        auto& all = *static_cast<std::vector<Facts>*>(context);
        all.resize(engine + 1);
        all[engine][key] = value;
      },
      &engines);
  return engines;
}

class CApi : public FakeMachine {};

TEST_F(CApi, StatesTheVersionOfTheProject) {
  std::ifstream file(std::string(SOURCE_DIR) + "/pyproject.toml");
  const std::string wanted = std::string("version = \"") + tensorrt_executorch_version() + "\"";
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    found |= line == wanted;
  }
  EXPECT_TRUE(found) << wanted;
}

TEST_F(CApi, NamesTheFileThatServesTheBackend) {
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&tensorrt_executorch_version), &info), 0);
  EXPECT_STREQ(tensorrt_executorch_backend_owner(), info.dli_fname);
}

TEST_F(CApi, SaysWhoServesDeviceMemory) {
  EXPECT_TRUE(tensorrt_executorch_owns_device_allocator());
  EXPECT_STREQ(tensorrt_executorch_device_allocator_reason(), "registered by this library");
}

TEST_F(CApi, DescribesTheMachine) {
  set_library_files(fake_library("libtensorrt_rtx.so.1") + ":" + fake_library("libnvinfer_lean.so.11"));
  const Facts facts = describe();
  EXPECT_EQ(facts.at("cuda.driver"), "13.0");
  EXPECT_EQ(facts.at("cuda.runtime"), "13.0");
  EXPECT_EQ(facts.at("cuda.devices"), "2");
  EXPECT_EQ(facts.at("device.1.name"), "Fake GPU 1");
  EXPECT_EQ(facts.at("device.0.compute_capability"), "9.0");
  EXPECT_EQ(facts.at("tensorrt.rtx.version"), "1.6.1.120");
  EXPECT_EQ(facts.at("tensorrt.rtx.path"), fake_library("libtensorrt_rtx.so.1"));
  EXPECT_EQ(facts.at("tensorrt.lean.version"), "11.4.0.10");
  EXPECT_EQ(facts.count("tensorrt.full.version"), 0u);
  EXPECT_FALSE(facts.at("tensorrt.full.error").empty());
}

TEST_F(CApi, DescribesAMachineWithoutADriver) {
  fake_cuda_set_devices(-1);
  const CapturedLog log;
  const Facts facts = describe();
  EXPECT_EQ(facts.count("cuda.driver"), 0u);
  EXPECT_EQ(facts.at("cuda.devices"), "0");
  EXPECT_EQ(facts.at("cuda.error"), "CUDA driver version is insufficient for CUDA runtime version");
  EXPECT_TRUE(log.errors().empty()) << "a report is no failure: " << log.text();
  fake_cuda_set_devices(2);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CApi, CountsWhatAnEngineDid) {
  EXPECT_TRUE(stats().empty());
  FakeEngine engine;
  engine.input("x", "float32", {2}).output("y", "float32", {2}).linear("y", {"x"}, {}, 1);
  engine.engine_property("weight_bytes", "5000").engine_property("scratch_bytes", "300").device(1);
  LoadRequest request;
  request.method = "decode";
  request.options = {option("use_cuda_graphs", true)};
  auto delegate = Delegate::load(engine, request);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> x({2}, {1, 2});
  TestTensor<float> y(TestTensor<float>::Kind::kDevice, {2}, {0, 0}, 1);
  for (int call = 0; call < 4; ++call) {
    ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  }
  const std::vector<Facts> engines = stats();
  ASSERT_EQ(engines.size(), 1u);
  const Facts& facts = engines[0];
  EXPECT_NE(facts.at("label").find("decode"), std::string::npos);
  EXPECT_EQ(facts.at("device"), "1");
  EXPECT_EQ(facts.at("calls"), "4");
  EXPECT_EQ(facts.at("calls.plain"), "1");
  EXPECT_EQ(facts.at("calls.replay"), "3");
  EXPECT_EQ(facts.at("captures"), "1");
  EXPECT_EQ(facts.at("graphs"), "1");
  EXPECT_EQ(facts.at("staged.inputs"), "4");
  EXPECT_EQ(facts.at("staged.outputs"), "0");
  EXPECT_EQ(facts.at("copied_bytes"), "32");
  EXPECT_EQ(facts.at("host_waits"), "4");
  EXPECT_EQ(facts.at("device.weights"), "5000");
  EXPECT_EQ(facts.at("device.scratch"), "300");
}

TEST_F(CApi, CountsWhyCallsRanPlainly) {
  FakeEngine engine;
  engine.input("x", "float32", {2}).output("y", "float32", {2}).linear("y", {"x"});
  LoadRequest request;
  request.options = {option("use_cuda_graphs", true)};
  auto delegate = Delegate::load(engine, request);
  ASSERT_TRUE(delegate.ok());
  TestTensor<float> x({2}, {1, 2});
  TestTensor<float> y({2}, {0, 0});
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  fake_cuda_fail("cudaGraphInstantiate", 1, cudaErrorMemoryAllocation);
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(stats().at(0).at("fallback: out of memory"), "1");
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
