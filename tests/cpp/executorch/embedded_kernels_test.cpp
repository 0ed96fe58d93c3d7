// Compiled kernels that travel in the program: made at export, used at load, and harmless when they do not
// fit.

#include "engine/embedded_kernels.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/kernel_bytes.h"
#include "engine/kernel_cache.h"
#include "engine/runtime_cache_pool.h"
#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

namespace fs = std::filesystem;
using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;
using Floats = TestTensor<float>;
using Data = std::vector<uint8_t>;

Data bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// A program's named data. Asking for what is not there fails the test, as ExecuTorch logs an error then.
class NamedData : public NamedDataMap {
 public:
  explicit NamedData(std::map<std::string, Data> data = {}) : data_(std::move(data)) {
    for (const auto& [key, value] : data_) {
      keys_.push_back(key);
    }
  }

  Data& operator[](const std::string& key) { return data_.at(key); }
  void break_reading() { reads_ = false; }

  Result<FreeableBuffer> get_data(std::string_view key) const override {
    const auto found = data_.find(std::string(key));
    EXPECT_NE(found, data_.end()) << key;
    if (!reads_) {
      return Error::AccessFailed;
    }
    return FreeableBuffer(found->second.data(), found->second.size(), nullptr);
  }
  Result<uint32_t> get_num_keys() const override { return static_cast<uint32_t>(keys_.size()); }
  Result<const char*> get_key(uint32_t index) const override { return keys_.at(index).c_str(); }
  Result<const executorch::runtime::TensorLayout> get_tensor_layout(std::string_view) const override {
    return Error::NotImplemented;
  }
  Error load_data_into(std::string_view, void*, size_t) const override { return Error::NotImplemented; }

 private:
  std::map<std::string, Data> data_;
  std::vector<std::string> keys_;
  bool reads_ = true;
};

struct Compiled {
  int error = 0;
  std::string key;
  Data data;
};

Compiled compile(const std::vector<uint8_t>& blob) {
  Compiled result;
  result.error = tensorrt_executorch_compile_kernels(
      blob.data(), blob.size(),
      [](void* context, const char* key, const void* data, size_t size) {
        auto& taken = *static_cast<Compiled*>(context);
        taken.key = key;
        taken.data.assign(static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + size);
      },
      &result);
  return result;
}

FakeEngine add_one(int device = 0) {
  FakeEngine engine;
  engine.input("x", "float32", {2}).output("y", "float32", {2}).linear("y", {"x"}, {}, 1).device(device);
  return engine;
}

void expect_adds_one(Delegate& delegate) {
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  ASSERT_EQ(delegate.run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
}

class KernelsInTheProgram : public FakeMachine {
 protected:
  void SetUp() override {
    FakeMachine::SetUp();
    // Without the folder, so that only the program can hold kernels.
    KernelCache::set_folder("off");
    made_ = compile(add_one().blob());
    ASSERT_EQ(made_.error, 0);
    KernelCache::set_folder(kernel_folder());
  }

  /// How often TensorRT compiles while a delegate is loaded and runs, with `data` in the program.
  /// Compilations of a load in a process that has not loaded the engine before.
  static long compilations(const FakeEngine& engine, const NamedDataMap* data) {
    RuntimeCachePool::clear();
    const long before = fake_cuda_count("live.tensorrt_compilations");
    LoadRequest request;
    request.named_data = data;
    auto delegate = Delegate::load(engine, request);
    EXPECT_TRUE(delegate.ok());
    if (delegate.ok()) {
      expect_adds_one(*delegate);
    }
    return fake_cuda_count("live.tensorrt_compilations") - before;
  }

  bool folder_is_empty() const { return fs::is_empty(kernel_folder()); }
  NamedData program() const { return NamedData({{made_.key, made_.data}, {"weights", {1, 2, 3}}}); }

  Compiled made_;
};

TEST_F(KernelsInTheProgram, AreNamedAfterEngineVersionAndGpu) {
  EXPECT_EQ(made_.key.substr(0, 17), "tensorrt_kernels/");
  EXPECT_EQ(made_.key.substr(17 + 64), "/1.6.1.120/Fake GPU 0");
  EXPECT_FALSE(unseal_kernels({made_.data.data(), made_.data.size()}).empty());
}

TEST_F(KernelsInTheProgram, MakeTheFirstLoadCompileNothing) {
  const NamedData data = program();
  const CapturedLog log;
  EXPECT_EQ(compilations(add_one(), &data), 0);
  EXPECT_EQ(log.text(), "");
  EXPECT_TRUE(folder_is_empty()) << "they are in the program already";
  EXPECT_EQ(compilations(add_one(), nullptr), 1);
}

TEST_F(KernelsInTheProgram, AreNotLookedForInOtherPrograms) {
  const NamedData data({{"weights", {1, 2, 3}}});
  const CapturedLog log;
  EXPECT_EQ(compilations(add_one(), &data), 1);
  EXPECT_EQ(log.text(), "");
}

TEST_F(KernelsInTheProgram, OfAnotherEngineAreNotTaken) {
  FakeEngine other = add_one();
  other.engine_property("layers", "7");
  const NamedData data = program();
  EXPECT_EQ(compilations(other, &data), 1);
}

TEST_F(KernelsInTheProgram, ForAnotherGpuAreRemarkedOnAndCompiled) {
  const NamedData data = program();
  const CapturedLog log;
  EXPECT_EQ(compilations(add_one(1), &data), 1);
  EXPECT_TRUE(
      log.contains("the file brings compiled kernels for '1.6.1.120/Fake GPU 0', but this machine is "
                   "'1.6.1.120/Fake GPU 1'"))
      << log.text();
  EXPECT_TRUE(log.errors().empty());
}

TEST_F(KernelsInTheProgram, ForAnotherVersionAreRemarkedOnAndCompiled) {
  std::string key = made_.key;
  key.replace(key.find("1.6.1.120"), 9, "1.5.0.114");
  const NamedData data({{key, made_.data}});
  const CapturedLog log;
  EXPECT_EQ(compilations(add_one(), &data), 1);
  EXPECT_TRUE(log.contains("kernels for '1.5.0.114/Fake GPU 0', but this machine is '1.6.1.120/Fake GPU 0'"))
      << log.text();
  EXPECT_TRUE(log.errors().empty());
}

TEST_F(KernelsInTheProgram, MayBeForSeveralMachines) {
  const Compiled second = compile(add_one(1).blob());
  ASSERT_NE(second.key, made_.key);
  KernelCache::set_folder("off");
  const NamedData data({{made_.key, made_.data}, {second.key, second.data}});
  const CapturedLog log;
  EXPECT_EQ(compilations(add_one(0), &data), 0);
  EXPECT_EQ(compilations(add_one(1), &data), 0);
  EXPECT_EQ(log.text(), "");
}

TEST_F(KernelsInTheProgram, ThatAreDamagedAreCompiledAgain) {
  Data flipped = made_.data;
  flipped.at(made_.data.size() - 1) ^= 1;
  Data cut = made_.data;
  cut.pop_back();
  for (const Data& damaged : {flipped, cut, Data(), Data(40), bytes_of("nonsense")}) {
    KernelCache::set_folder("off");
    NamedData data = program();
    data[made_.key] = damaged;
    const CapturedLog log;
    EXPECT_EQ(compilations(add_one(), &data), 1);
    EXPECT_TRUE(log.contains("the compiled kernels in the file are damaged")) << log.text();
    EXPECT_TRUE(log.errors().empty());
  }
}

TEST_F(KernelsInTheProgram, ThatCannotBeReadAreCompiledAgain) {
  NamedData data = program();
  data.break_reading();
  const CapturedLog log;
  EXPECT_EQ(compilations(add_one(), &data), 1);
  EXPECT_TRUE(log.contains("the compiled kernels in the file are damaged")) << log.text();
  EXPECT_TRUE(log.errors().empty());
}

TEST_F(KernelsInTheProgram, ThatTensorRTRefusesAreCompiledAgain) {
  const Data foreign = bytes_of("whole, but nothing that this library wrote");
  NamedData data = program();
  data[made_.key] = seal_kernels({foreign.data(), foreign.size()});
  {
    const CapturedLog log;
    EXPECT_EQ(compilations(add_one(), &data), 1);
    EXPECT_TRUE(log.contains("does not take the compiled kernels in the file. TensorRT says: nothing."))
        << log.text();
    EXPECT_TRUE(log.errors().empty());
  }
  EXPECT_FALSE(folder_is_empty());
  const CapturedLog log;
  EXPECT_EQ(compilations(add_one(), &data), 0) << "the folder has them now";
}

FakeEngine dynamic() {
  FakeEngine engine;
  engine.input("x", "float32", {-1}, {{{1}, {8}}}).output("y", "float32", {-1}).linear("y", {"x"}, {}, 1);
  return engine;
}

// What was compiled for the sizes of the calls goes to the folder, which then knows more than the program.
TEST_F(KernelsInTheProgram, AreKeptTogetherWithThoseOfOtherSizes) {
  KernelCache::set_folder("off");
  const Compiled made = compile(dynamic().blob());
  KernelCache::set_folder(kernel_folder());
  const NamedData data({{made.key, made.data}});
  EXPECT_EQ(compilations(dynamic(), &data), 1) << "for two elements";
  EXPECT_FALSE(folder_is_empty());
  EXPECT_EQ(compilations(dynamic(), &data), 0);
  EXPECT_EQ(compilations(dynamic(), nullptr), 0);
}

TEST_F(KernelsInTheProgram, AreUsedWhenALargerFolderIsDamaged) {
  EXPECT_EQ(compilations(add_one(), nullptr), 1);
  const fs::path file = fs::directory_iterator(kernel_folder())->path();
  fs::resize_file(file, 1000);
  const NamedData data = program();
  EXPECT_EQ(compilations(add_one(), &data), 0);
}

TEST_F(KernelsInTheProgram, AreNotWantedByTensorRT) {
  FakeEngine engine = add_one();
  engine.family(FakeEngine::Family::kTensorRT, 110400);
  const NamedData data = program();
  const CapturedLog log;
  EXPECT_EQ(compilations(engine, &data), 0);
  EXPECT_FALSE(log.contains("kernels")) << log.text();
}

TEST_F(KernelsInTheProgram, AreSharedWithTheEngine) {
  const NamedData data = program();
  LoadRequest request;
  request.named_data = &data;
  auto first = Delegate::load(add_one(), request);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(compilations(add_one(), nullptr), 0);
}

class KernelsForAProgram : public FakeMachine {
 protected:
  static Error refused(const std::vector<uint8_t>& blob) {
    const Compiled result = compile(blob);
    EXPECT_TRUE(result.key.empty() && result.data.empty());
    return static_cast<Error>(result.error);
  }
};

TEST_F(KernelsForAProgram, AreNotThereForTensorRT) {
  FakeEngine engine = add_one();
  engine.family(FakeEngine::Family::kTensorRT, 110400);
  const CapturedLog log;
  EXPECT_EQ(refused(engine.blob()), Error::NotSupported);
  EXPECT_TRUE(log.contains("is one of TensorRT, which holds its kernels already")) << log.text();
}

TEST_F(KernelsForAProgram, NeedAGpu) {
  fake_cuda_set_devices(0);
  const CapturedLog log;
  EXPECT_EQ(refused(add_one().blob()), Error::NotFound);
  EXPECT_EQ(log.errors().size(), 1u) << log.text();
}

TEST_F(KernelsForAProgram, NeedTheGpuThatTheProgramNames) {
  const CapturedLog log;
  EXPECT_EQ(refused(add_one(7).blob()), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(log.contains("was exported for GPU 7, but this process sees 2 GPU(s)")) << log.text();
}

TEST_F(KernelsForAProgram, NeedAWholeBlob) {
  const CapturedLog log;
  EXPECT_EQ(refused(bytes_of("TR01")), Error::InvalidProgram);
  EXPECT_EQ(log.errors().size(), 1u) << log.text();
}

TEST_F(KernelsForAProgram, NeedAContext) {
  fake_cuda_fail("tensorrt.create_context", 1, cudaErrorUnknown);
  const CapturedLog log;
  EXPECT_NE(refused(add_one().blob()), Error::Ok);
  EXPECT_TRUE(log.contains("no execution context could be created")) << log.text();
}

TEST_F(KernelsForAProgram, NeedARuntimeCache) {
  fake_cuda_fail("tensorrt.create_cache", 1, cudaErrorUnknown);
  const CapturedLog log;
  EXPECT_EQ(refused(add_one().blob()), Error::Internal);
  EXPECT_TRUE(log.contains("gave none of the kernels that it compiled. TensorRT says: nothing."))
      << log.text();
}

TEST_F(KernelsForAProgram, AreTakenFromTheFolderWhenItHasThem) {
  ASSERT_EQ(compile(add_one().blob()).error, 0);
  const long before = fake_cuda_count("live.tensorrt_compilations");
  EXPECT_EQ(compile(add_one().blob()).error, 0);
  EXPECT_EQ(fake_cuda_count("live.tensorrt_compilations"), before);
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
