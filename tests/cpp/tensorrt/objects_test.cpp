// TensorRT's objects are called by slot number, so whatever could be wrong with one is checked before its
// first call.

#include "tensorrt/objects.h"

#include <gtest/gtest.h>

#include "tensorrt/diagnostics.h"
#include "tensorrt/slots.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/fake_engine.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

std::unique_ptr<Library> open(const std::string& file) {
  std::string why;
  auto library = Library::open(fake_library(file), false, why);
  EXPECT_TRUE(library.ok()) << why;
  return library.ok() ? std::move(*library) : nullptr;
}

/// Lives for the process, as the runtime that belongs to it does.
const Library& rtx() {
  static const auto* const library = open("libtensorrt_rtx.so.1").release();
  return *library;
}

FakeEngine two_profiles() {
  FakeEngine engine;
  engine.input("x", "float16", {-1, 4}, {{{1, 4}, {8, 4}}, {{9, 4}, {32, 4}}}).input("n", "int64", {});
  engine.output("y", "bfloat16", {-1, 4}).aliased_output("m", "int64", {}, "n");
  engine.linear("y", {"x"}).linear("m", {"n"}, {}, 1);
  engine.engine_property("scratch_bytes", "512").engine_property("layers", "7");
  engine.engine_property("streamable_bytes", "100").engine_property("auxiliary_streams", "2");
  return engine;
}

class Objects : public FakeMachine {
 protected:
  static Result<Engine> deserialize(const FakeEngine& engine, std::string& reason) {
    auto runtime = Runtime::of(rtx());
    EXPECT_TRUE(runtime.ok());
    const std::vector<uint8_t> bytes = engine.engine_bytes();
    return (*runtime)->deserialize({bytes.data(), bytes.size()}, reason);
  }
};

TEST_F(Objects, AnswerWhatTheEngineIs) {
  std::string reason;
  auto engine = deserialize(two_profiles(), reason);
  ASSERT_TRUE(engine.ok()) << reason;
  EXPECT_EQ(engine->tensor_count(), 4);
  EXPECT_STREQ(engine->tensor_name(1), "n");
  EXPECT_EQ(engine->tensor_name(4), nullptr);
  EXPECT_EQ(engine->mode("x"), abi::IOMode::kInput);
  EXPECT_EQ(engine->mode("y"), abi::IOMode::kOutput);
  EXPECT_EQ(engine->mode("unknown"), abi::IOMode::kNone);
  EXPECT_EQ(engine->data_type("x"), abi::DataType::kHalf);
  EXPECT_EQ(engine->data_type("y"), abi::DataType::kBF16);
  EXPECT_EQ(abi::to_string(engine->shape("x")), "[-1, 4]");
  EXPECT_EQ(abi::to_string(engine->shape("n")), "[]");
  EXPECT_EQ(abi::to_string(engine->profile_shape("x", 1, abi::ProfileSelector::kMin)), "[9, 4]");
  EXPECT_EQ(abi::to_string(engine->profile_shape("x", 0, abi::ProfileSelector::kMax)), "[8, 4]");
  EXPECT_EQ(engine->profile_shape("x", 2, abi::ProfileSelector::kMax).nb_dims, -1);
  EXPECT_EQ(engine->profile_count(), 2);
  EXPECT_EQ(engine->layer_count(), 7);
  EXPECT_EQ(engine->auxiliary_stream_count(), 2);
  EXPECT_EQ(engine->device_memory_size(), 512);
  EXPECT_EQ(engine->streamable_weights_size(), 100);
  EXPECT_STREQ(engine->aliased_input("m"), "n");
  EXPECT_EQ(engine->aliased_input("y"), nullptr);
}

TEST_F(Objects, GiveTensorRTsReasonForARefusal) {
  FakeEngine engine = two_profiles();
  engine.family(FakeEngine::Family::kRTX, 10500);
  std::string reason;
  EXPECT_EQ(deserialize(engine, reason).error(), Error::InvalidProgram);
  EXPECT_NE(reason.find("current version 1.6.1, serialized engine version 1.5.0"), std::string::npos)
      << reason;
  EXPECT_EQ(take_reason(), "") << "a reason belongs to one call";
}

TEST_F(Objects, OneRuntimeServesALibrary) { EXPECT_EQ(*Runtime::of(rtx()), *Runtime::of(rtx())); }

TEST_F(Objects, RefuseARuntimeThatIsNone) {
  struct Case {
    cudaError_t failure;  // what makes the fake return null, or a small number
    const char* sentence;
  };
  for (const Case& c : {Case{cudaErrorUnknown, "TensorRT gave no usable runtime: it returned null"},
                        Case{cudaErrorNoDevice,
                             "TensorRT gave no usable runtime: it returned a number that is no address"}}) {
    const auto library = open("libnvinfer_dispatch.so.11");
    fake_cuda_fail("tensorrt.create_runtime", 1, c.failure);
    const CapturedLog log;
    EXPECT_EQ(Runtime::of(*library).error(), Error::DelegateInvalidCompatibility);
    EXPECT_TRUE(log.contains(c.sentence)) << log.text();
    EXPECT_TRUE(
        log.contains("TensorRT (dispatch runtime) 11.4.0.10 (" + library->path() + ") cannot be used"))
        << log.text();
  }
}

TEST_F(Objects, RefuseALibraryWhoseMethodsHaveMoved) {
  const auto library = open("broken/moved_slots.so");
  const CapturedLog log;
  EXPECT_EQ(Runtime::of(*library).error(), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(log.contains("cannot be used. Install TensorRT again")) << log.text();
}

/// An object as TensorRT makes them, which each test spoils in one way. Its code lies in this executable.
class Imitation {
 public:
  Imitation() {
    for (void*& slot : table_) {
      slot = reinterpret_cast<void*>(&answer);
    }
    outer_ = {reinterpret_cast<void**>(outer_table_), &implementation_};
    implementation_.table = table_;
    implementation_.outer = &outer_;
  }

  abi::Outer outer_{};
  void* outer_table_[2] = {reinterpret_cast<void*>(&destroy), reinterpret_cast<void*>(&destroy)};
  void* table_[64];
  struct {
    void** table;
    void* outer;
  } implementation_{};

 private:
  static void* answer(void* implementation) { return static_cast<void**>(implementation)[1]; }
  static void destroy(void*) {}
};

class Verification : public ::testing::Test {
 protected:
  void expect_refused(const std::string& found) {
    const CapturedLog log;
    EXPECT_EQ(Context::adopt(&object_.outer_).error(), Error::Internal);
    EXPECT_EQ(log.errors(), std::vector<std::string>{"TensorRT gave no usable execution context: " + found});
  }
  Imitation object_;
};

TEST_F(Verification, AcceptsAnObjectOfTheRightForm) { EXPECT_TRUE(Context::adopt(&object_.outer_).ok()); }

TEST_F(Verification, RefusesWhatIsNoObject) {
  const CapturedLog log;
  EXPECT_EQ(Context::adopt(nullptr).error(), Error::Internal);
  EXPECT_TRUE(log.contains("it returned null")) << log.text();
  for (const uintptr_t number :
       {uintptr_t{0x228}, uintptr_t{1}, uintptr_t{0xffff}, uintptr_t{0x7fffffff0001}}) {
    EXPECT_EQ(Context::adopt(reinterpret_cast<void*>(number)).error(), Error::Internal);
    EXPECT_TRUE(log.contains("it returned a number that is no address")) << log.text();
  }
}

TEST_F(Verification, RefusesAnObjectWithoutATable) {
  object_.outer_.table = nullptr;
  expect_refused("the object does not have the expected layout.");
}

TEST_F(Verification, RefusesAnObjectWithoutAnImplementation) {
  object_.outer_.implementation = reinterpret_cast<void*>(0x228);
  expect_refused("the object does not have the expected layout.");
}

TEST_F(Verification, RefusesASlotThatIsNoCode) {
  int number = 0;
  object_.table_[36] = &number;
  expect_refused("a method that is needed is not where this version should have it.");
  object_.table_[36] = nullptr;
  expect_refused("a method that is needed is not where this version should have it.");
}

TEST_F(Verification, RefusesAnObjectThatDoesNotKnowItself) {
  object_.implementation_.outer = nullptr;
  expect_refused(
      "the object does not know itself, so its methods are not where this version should have them.");
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
