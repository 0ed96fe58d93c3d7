// What cannot work is refused when it is loaded, with one sentence that says what to do.

#include <gtest/gtest.h>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;

FakeEngine add_one() {
  FakeEngine engine;
  engine.input("x", "float32", {2}).output("y", "float32", {2}).linear("y", {"x"}, {}, 1);
  return engine;
}

class LoadRefusals : public FakeMachine {
 protected:
  static void expect(const std::vector<uint8_t>& blob, Error error, const std::vector<std::string>& parts,
                     const LoadRequest& request = {}) {
    const CapturedLog log;
    const auto delegate = Delegate::load(blob, request);
    EXPECT_EQ(delegate.error(), error) << log.text();
    for (const std::string& part : parts) {
      EXPECT_TRUE(log.contains(part)) << "missing: " << part << "\nin: " << log.text();
    }
    EXPECT_EQ(log.errors().size(), 1u) << log.text();
  }
  static void expect(const FakeEngine& engine, Error error, const std::vector<std::string>& parts) {
    expect(engine.blob(), error, parts);
  }
};

TEST_F(LoadRefusals, NoBytes) {
  expect(std::vector<uint8_t>(), Error::InvalidArgument,
         {"The program holds no data for TensorRTBackend", "Export the model again"});
}

TEST_F(LoadRefusals, ADamagedBlobAtEveryLength) {
  const std::vector<uint8_t> blob = add_one().blob();
  for (size_t size = 1; size < blob.size(); ++size) {
    const CapturedLog log;
    const std::vector<uint8_t> cut(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(Delegate::load(cut).error(), Error::InvalidProgram) << size;
    EXPECT_EQ(log.errors().size(), 1u) << log.text();
  }
}

TEST_F(LoadRefusals, AnEngineOfNoKnownKind) {
  std::vector<uint8_t> blob = add_one().blob();
  const size_t engine = blob.size() - add_one().engine_bytes().size();
  blob[engine] = 'X';
  expect(blob, Error::InvalidProgram,
         {"method \"forward\"", "do not begin as an engine of TensorRT or TensorRT-RTX does"});
}

TEST_F(LoadRefusals, ADamagedEngineWithoutDigest) {
  std::vector<uint8_t> blob = add_one().blob();
  blob[blob.size() - 1] = 'X';
  expect(blob, Error::InvalidProgram,
         {"TensorRT-RTX 1.6.1.120", "TensorRT says: Serialization assertion failed",
          "check that the file is whole"});
}

TEST_F(LoadRefusals, AnEngineOfAnotherVersion) {
  FakeEngine engine = add_one();
  engine.family(FakeEngine::Family::kRTX, 10700)
      .metadata(R"("tensorrt":{"flavor":"rtx","version":"1.7.0.5"})");
  expect(engine, Error::DelegateInvalidCompatibility,
         {"TensorRT-RTX 1.6.1.120", fake_library("libtensorrt_rtx.so.1"), "built by version 1.7.0.5",
          "current version 1.6.1, serialized engine version 1.7.0",
          "Install the version that built it, or export the model again with this one."});
}

TEST_F(LoadRefusals, AnEngineForAnotherGpu) {
  FakeEngine engine = add_one();
  engine.engine_property("compute_capabilities", R"(["12.0"])")
      .metadata(R"("compute_capabilities":["12.0"])");
  expect(engine, Error::InvalidProgram,
         {"for compute capability 12.0", "this GPU has 9.0 (Fake GPU 0)",
          "Export the model again for this GPU"});
  fake_cuda_set_compute_capability(0, 12, 0);
  EXPECT_TRUE(Delegate::load(engine).ok());
}

TEST_F(LoadRefusals, AGpuThatIsNotThere) {
  FakeEngine engine = add_one();
  expect(engine.device(2), Error::DelegateInvalidCompatibility,
         {"was exported for GPU 2, but this process sees 2 GPU(s)", "cuda:0", "CUDA_VISIBLE_DEVICES"});
}

TEST_F(LoadRefusals, AMachineWithoutADriver) {
  fake_cuda_set_devices(-1);
  expect(add_one(), Error::NotFound, {"CUDA driver version is insufficient", "install driver 580 or newer"});
  EXPECT_FALSE(backend()->is_available());
}

TEST_F(LoadRefusals, AMachineWithoutAGpu) {
  fake_cuda_set_devices(0);
  expect(add_one(), Error::NotFound, {"no CUDA-capable device", "The driver sees no GPU"});
}

TEST_F(LoadRefusals, ATensorThatTheEngineDoesNotHave) {
  FakeEngine engine = add_one();
  engine.io_bindings(R"([{"name":"q","is_input":true},{"name":"y"}])");
  expect(engine, Error::InvalidProgram, {"the file records the input 'q', but the engine has no such input"});
}

TEST_F(LoadRefusals, ATensorThatTheFileDoesNotRecord) {
  FakeEngine engine = add_one();
  engine.output("extra", "float32", {2}).linear("extra", {"x"});
  engine.io_bindings(R"([{"name":"x","is_input":true},{"name":"y"}])");
  expect(engine, Error::InvalidProgram,
         {"the engine has the output 'extra', which the file does not record"});
}

TEST_F(LoadRefusals, AnInputRecordedAsOutput) {
  FakeEngine engine = add_one();
  engine.io_bindings(R"([{"name":"y","is_input":true},{"name":"x"}])");
  expect(engine, Error::InvalidProgram, {"the file records the input 'y', but the engine has no such input"});
}

TEST_F(LoadRefusals, ARecordedTypeOrShapeThatIsNotTheEngines) {
  FakeEngine engine = add_one();
  engine.io_bindings(R"([{"name":"x","dtype":"int64","shape":[2],"is_input":true},{"name":"y"}])");
  expect(engine, Error::InvalidProgram,
         {"the file records input 'x' as 'int64' [2], but the engine has float32 [2]"});
  FakeEngine other = add_one();
  other.io_bindings(R"([{"name":"x","dtype":"float32","shape":[3],"is_input":true},{"name":"y"}])");
  expect(other, Error::InvalidProgram,
         {"the file records input 'x' as 'float32' [3], but the engine has float32 [2]"});
}

TEST_F(LoadRefusals, NamesThatGiveNoOrder) {
  FakeEngine engine = add_one();
  expect(engine.io_bindings("[]"), Error::InvalidProgram, {"Tensor 'x' gives no position"});
}

TEST_F(LoadRefusals, ATypeThatExecuTorchLacks) {
  FakeEngine engine;
  engine.input("x", "float8_e4m3fn", {2}).output("y", "float32", {2}).linear("y", {"x"});
  expect(engine, Error::NotSupported, {"input 'x' has TensorRT's type FP8, which no ExecuTorch tensor has"});
}

TEST_F(LoadRefusals, TensorsThatTensorRTReadsOnTheHost) {
  FakeEngine engine = add_one();
  engine.input("sizes", "int64", {1}).tensor_property("shape_inference", "true");
  expect(engine, Error::NotSupported, {"the values of input 'sizes' decide shapes"});
  FakeEngine host = add_one();
  host.input("flag", "bool", {}).tensor_property("on_host", "true");
  expect(host, Error::NotSupported, {"input 'flag'", "TensorRT reads them on the host"});
}

TEST_F(LoadRefusals, PackedMemoryFormats) {
  FakeEngine engine;
  engine.input("x", "float16", {1, 8, 2, 2}).tensor_property("format", "2");
  engine.output("y", "float16", {1, 8, 2, 2}).linear("y", {"x"});
  expect(engine, Error::NotSupported, {"input 'x' has the packed memory format 2", "linear"});
}

TEST_F(LoadRefusals, ADynamicInputWithoutAProfile) {
  FakeEngine engine;
  engine.input("x", "float32", {-1}, {{{}, {}}}).output("y", "float32", {-1}).linear("y", {"x"});
  expect(engine, Error::InvalidProgram,
         {"input 'x' is dynamic, but the engine's optimization profile 0 has no range"});
}

TEST_F(LoadRefusals, EveryFailureOfTensorRT) {
  fake_cuda_fail("tensorrt.deserialize", 1, cudaErrorUnknown);
  expect(add_one(), Error::InvalidProgram, {"TensorRT says: injected failure of tensorrt.deserialize"});
  fake_cuda_fail("tensorrt.create_context", 1, cudaErrorUnknown);
  const CapturedLog log;
  EXPECT_EQ(Delegate::load(add_one()).error(), Error::Internal);
  EXPECT_TRUE(log.contains("injected failure of tensorrt.create_context")) << log.text();
}

TEST_F(LoadRefusals, TooLittleMemory) {
  FakeEngine engine = add_one();
  engine.engine_property("weight_bytes", "2000");
  fake_cuda_set_memory(1000);
  const CapturedLog log;
  EXPECT_NE(Delegate::load(engine).error(), Error::Ok);
  EXPECT_TRUE(log.contains("Out of memory for the engine's weights")) << log.text();
}

TEST_F(LoadRefusals, TensorNamesThatWouldFloodTheLog) {
  FakeEngine engine = add_one();
  const std::string endless(4000, 'n');
  engine.io_bindings(R"([{"name":")" + endless + R"(","is_input":true},{"name":"y"}])");
  expect(engine, Error::InvalidProgram, {"'" + std::string(48, 'n') + "...'", "export the model again"});
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
