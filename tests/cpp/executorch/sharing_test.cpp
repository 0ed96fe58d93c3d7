// What several loads have in common: engines, scratch memory and compiled kernels.

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "engine/runtime_cache_pool.h"
#include "engine/scratch_pool.h"
#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

namespace fs = std::filesystem;
using executorch::runtime::Error;
using Floats = TestTensor<float>;

FakeEngine add(double value, int64_t scratch_bytes = 0, int device = 0) {
  FakeEngine engine;
  engine.input("x", "float32", {2}).output("y", "float32", {2}).linear("y", {"x"}, {}, value).device(device);
  engine.engine_property("weight_bytes", "4096")
      .engine_property("scratch_bytes", std::to_string(scratch_bytes));
  return engine;
}

void expect_adds(Delegate& delegate, float value) {
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  ASSERT_EQ(delegate.run({x, y}), Error::Ok);
  EXPECT_EQ(y.values(), (std::vector<float>{1 + value, 2 + value}));
}

class SharedEngines : public FakeMachine {
 protected:
  static long engines() { return fake_cuda_count("live.tensorrt_engines"); }
};

TEST_F(SharedEngines, OneEngineServesAllLoadsOfItsBytes) {
  auto first = Delegate::load(add(1));
  auto second = Delegate::load(add(1));
  auto other = Delegate::load(add(2));
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  EXPECT_EQ(engines(), 2);
  expect_adds(*first, 1);
  expect_adds(*second, 1);
  expect_adds(*other, 2);
}

TEST_F(SharedEngines, GpuAndBudgetKeepThemApart) {
  auto first = Delegate::load(add(1));
  auto on_second_gpu = Delegate::load(add(1, 0, 1));
  LoadRequest budget;
  budget.compile_specs = {{"weight_streaming_budget", "7"}};
  auto with_budget = Delegate::load(add(1), budget);
  EXPECT_EQ(engines(), 3);
}

TEST_F(SharedEngines, MayBeSwitchedOff) {
  LoadRequest request;
  request.options = {option("use_shared_engines", false)};
  auto first = Delegate::load(add(1));
  auto second = Delegate::load(add(1), request);
  auto third = Delegate::load(add(1), request);
  EXPECT_EQ(engines(), 3);
}

TEST_F(SharedEngines, GoWithTheirLastLoad) {
  auto first = std::make_unique<Result<Delegate>>(Delegate::load(add(1)));
  auto second = Delegate::load(add(1));
  first.reset();
  EXPECT_EQ(engines(), 1);
  expect_adds(*second, 1);
}

// The order of arguments belongs to the program, not to the engine.
TEST_F(SharedEngines, KeepEachProgramsOrderOfArguments) {
  FakeEngine engine;
  engine.input("a", "float32", {1}).input("b", "float32", {1}).output("y", "float32", {1});
  engine.linear("y", {"a", "b"}, {10, 1});
  FakeEngine swapped = engine;
  swapped.io_bindings(R"([{"name":"b","is_input":true},{"name":"a","is_input":true},{"name":"y"}])");
  auto first = Delegate::load(engine);
  auto second = Delegate::load(swapped);
  ASSERT_TRUE(first.ok() && second.ok());
  Floats one({1}, {1});
  Floats two({1}, {2});
  Floats y({1}, {0});
  ASSERT_EQ(first->run({one, two, y}), Error::Ok);
  EXPECT_EQ(y.values()[0], 12);
  ASSERT_EQ(second->run({one, two, y}), Error::Ok);
  EXPECT_EQ(y.values()[0], 21);
}

TEST_F(SharedEngines, RefuseAProgramThatRecordsOtherTensors) {
  auto first = Delegate::load(add(1));
  ASSERT_TRUE(first.ok());
  FakeEngine wrong = add(1);
  wrong.io_bindings(R"([{"name":"q","is_input":true},{"name":"y"}])");
  const CapturedLog log;
  EXPECT_EQ(Delegate::load(wrong).error(), Error::InvalidProgram);
}

TEST_F(SharedEngines, SurviveLoadsOnManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int round = 0; round < 25; ++round) {
        auto delegate = Delegate::load(add(1));
        ASSERT_TRUE(delegate.ok());
        expect_adds(*delegate, 1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

class SharedScratch : public FakeMachine {
 protected:
  static LoadRequest shared() {
    LoadRequest request;
    request.options = {option("use_shared_activation_scratch", true)};
    return request;
  }
};

TEST_F(SharedScratch, IsAsLargeAsTheLargestNeed) {
  std::vector<Delegate> delegates;
  for (int i = 1; i <= 8; ++i) {
    auto delegate = Delegate::load(add(i, 1000 * i), shared());
    ASSERT_TRUE(delegate.ok());
    delegates.push_back(std::move(*delegate));
  }
  for (size_t i = 0; i < delegates.size(); ++i) {
    expect_adds(delegates[i], static_cast<float>(i + 1));
  }
  EXPECT_GE(ScratchPool::bytes_on(0), 8000u);
  EXPECT_LT(ScratchPool::bytes_on(0), 16000u);
  EXPECT_EQ(ScratchPool::bytes_on_all(), ScratchPool::bytes_on(0) + ScratchPool::bytes_on(1));
  expect_adds(delegates[0], 1);
}

TEST_F(SharedScratch, MayGrowWhileOthersAreInFlight) {
  auto small = Delegate::load(add(1, 20000), shared());
  auto large = Delegate::load(add(2, 40000), shared());
  ASSERT_TRUE(small.ok() && large.ok());
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  Memory<float> a(Memory<float>::Kind::kManaged, {0, 0});
  Memory<float> b(Memory<float>::Kind::kManaged, {0, 0});
  auto x = executorch::extension::make_tensor_ptr({2}, a.data());
  auto y = executorch::extension::make_tensor_ptr({2}, b.data());
  tensorrt_executorch_set_caller_stream(stream);
  ASSERT_EQ(small->run({x.get(), y.get()}), Error::Ok);
  ASSERT_EQ(large->run({y.get(), x.get()}), Error::Ok);
  ASSERT_EQ(small->run({x.get(), y.get()}), Error::Ok);
  tensorrt_executorch_clear_caller_stream();
  cudaStreamSynchronize(stream);
  EXPECT_EQ(b.data()[0], 4);
  cudaStreamDestroy(stream);
}

/// Runs `delegate` on this thread's caller stream without waiting.
void queue(Delegate& delegate, cudaStream_t stream, Tensor* x, Tensor* y) {
  tensorrt_executorch_set_caller_stream(stream);
  EXPECT_EQ(delegate.run({x, y}), Error::Ok);
  tensorrt_executorch_clear_caller_stream();
}

TEST_F(SharedScratch, IsNotUsedByTwoStreamsAtOnce) {
  auto first = Delegate::load(add(1, 512), shared());
  auto second = Delegate::load(add(2, 512), shared());
  ASSERT_TRUE(first.ok() && second.ok());
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams) {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }
  Memory<float> results(Memory<float>::Kind::kManaged, std::vector<float>(256));
  auto x = executorch::extension::make_tensor_ptr({2}, results.data());
  auto y1 = executorch::extension::make_tensor_ptr({2}, results.data() + 64);
  auto y2 = executorch::extension::make_tensor_ptr({2}, results.data() + 128);
  queue(*first, streams[0], x.get(), y1.get());
  queue(*second, streams[1], x.get(), y2.get());
  cudaStreamSynchronize(streams[1]);
  EXPECT_EQ(results.data()[64], 1) << "the second has waited for the first, whose scratch it uses";
  EXPECT_EQ(results.data()[128], 2);
  for (cudaStream_t stream : streams) {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
}

// cudaStreamPerThread is one handle for as many streams as there are threads.
TEST_F(SharedScratch, IsNotUsedByTwoThreadsAtOnce) {
  auto first = Delegate::load(add(1, 512), shared());
  auto second = Delegate::load(add(2, 512), shared());
  ASSERT_TRUE(first.ok() && second.ok());
  Memory<float> results(Memory<float>::Kind::kManaged, std::vector<float>(256));
  auto x = executorch::extension::make_tensor_ptr({2}, results.data());
  auto y1 = executorch::extension::make_tensor_ptr({2}, results.data() + 64);
  auto y2 = executorch::extension::make_tensor_ptr({2}, results.data() + 128);
  queue(*first, cudaStreamPerThread, x.get(), y1.get());
  std::thread([&] {
    queue(*second, cudaStreamPerThread, x.get(), y2.get());
    cudaStreamSynchronize(cudaStreamPerThread);
    EXPECT_EQ(results.data()[64], 1) << "the second has waited for the first, whose scratch it uses";
  }).join();
  cudaStreamSynchronize(cudaStreamPerThread);
}

TEST_F(SharedScratch, WorksTogetherWithGraphs) {
  LoadRequest request = shared();
  request.options.push_back(option("use_cuda_graphs", true));
  auto small = Delegate::load(add(1, 50000), request);
  ASSERT_TRUE(small.ok());
  for (int call = 0; call < 4; ++call) {
    expect_adds(*small, 1);
  }
  auto large = Delegate::load(add(2, 90000), request);  // growth makes the small one's graphs stale
  ASSERT_TRUE(large.ok());
  for (int call = 0; call < 4; ++call) {
    expect_adds(*large, 2);
    expect_adds(*small, 1);
  }
  EXPECT_GT(fake_cuda_count("graph_launches"), 5);
}

// They take turns in the scratch anyway, so one context is enough, and its memory is there once.
TEST_F(SharedScratch, LoadsOfOneEngineTakeTurnsInOneContext) {
  const long before = fake_cuda_count("live.tensorrt_contexts");
  const bool both[] = {false, true};
  for (const bool graphs : both) {
    LoadRequest request = shared();
    request.options.push_back(option("use_cuda_graphs", graphs));
    auto first = std::make_unique<Result<Delegate>>(Delegate::load(add(1, 512), request));
    auto second = Delegate::load(add(1, 512), request);
    auto other_engine = Delegate::load(add(2, 512), request);
    auto without_turns = Delegate::load(add(1, 512));
    ASSERT_TRUE(first->ok() && second.ok() && other_engine.ok() && without_turns.ok());
    EXPECT_EQ(fake_cuda_count("live.tensorrt_contexts"), before + 3);
    for (int call = 0; call < 5; ++call) {
      expect_adds(**first, 1);
      expect_adds(*second, 1);
      expect_adds(*other_engine, 2);
      expect_adds(*without_turns, 1);
    }
    first.reset();
    expect_adds(*second, 1);
  }
  EXPECT_EQ(fake_cuda_count("live.tensorrt_contexts"), before);
}

TEST_F(SharedScratch, LoadsOfOneEngineKeepTheirOwnSizesAndAddresses) {
  FakeEngine engine;
  engine.input("x", "float32", {-1}, {{{1}, {8}}}).output("y", "float32", {-1}).linear("y", {"x"}, {}, 1);
  engine.engine_property("scratch_bytes", "512");
  auto first = Delegate::load(engine, shared());
  auto second = Delegate::load(engine, shared());
  ASSERT_TRUE(first.ok() && second.ok());
  Floats x({3}, {1, 2, 3});
  Floats y({3}, {0, 0, 0});
  Floats longer({5}, {1, 2, 3, 4, 5});
  Floats z({5}, {0, 0, 0, 0, 0});
  for (int call = 0; call < 3; ++call) {
    ASSERT_EQ(first->run({x, y}), Error::Ok);
    ASSERT_EQ(second->run({longer, z}), Error::Ok);
    EXPECT_EQ(y.values(), (std::vector<float>{2, 3, 4}));
    EXPECT_EQ(z.values(), (std::vector<float>{2, 3, 4, 5, 6}));
  }
}

TEST_F(SharedScratch, LoadsOfOneEngineRunOnTwoThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      auto delegate = Delegate::load(add(1, 512), shared());
      ASSERT_TRUE(delegate.ok());
      for (int round = 0; round < 25; ++round) {
        expect_adds(*delegate, 1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(SharedScratch, FailsWithASentenceWhenItCannotGrow) {
  auto delegate = Delegate::load(add(1, 200000), shared());
  ASSERT_TRUE(delegate.ok());
  Floats x({2}, {1, 2});
  Floats y({2}, {0, 0});
  fake_cuda_set_memory(1000);
  const CapturedLog log;
  EXPECT_EQ(delegate->run({x, y}), Error::MemoryAllocationFailed);
  EXPECT_TRUE(log.contains("cudaMalloc failed: out of memory")) << log.text();
  fake_cuda_set_memory(size_t{1} << 30);
  expect_adds(*delegate, 1);
}

class KernelFolder : public FakeMachine {
 protected:
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(kernel_folder())) {
      found.push_back(entry.path());
    }
    return found;
  }
};

TEST_F(KernelFolder, HoldsOneFilePerEngineAndGpu) {
  {
    auto delegate = Delegate::load(add(1));
  }
  ASSERT_EQ(files().size(), 1u);
  EXPECT_NE(files()[0].string().find("1.6.1.120-Fake_GPU_0.rtxcache"), std::string::npos) << files()[0];
  {
    auto delegate = Delegate::load(add(1));
  }
  EXPECT_EQ(files().size(), 1u);
  {
    auto delegate = Delegate::load(add(2));
  }
  {
    auto delegate = Delegate::load(add(1, 0, 1));
  }
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(KernelFolder, IsNotUsedForTensorRT) {
  FakeEngine engine = add(1);
  engine.family(FakeEngine::Family::kTensorRT, 110400);
  {
    auto delegate = Delegate::load(engine);
  }
  EXPECT_TRUE(files().empty());
}

TEST_F(KernelFolder, DamagedFilesAreRemovedAndMadeAgain) {
  {
    auto delegate = Delegate::load(add(1));
  }
  const fs::path file = files().at(0);
  const auto size = fs::file_size(file);
  for (const uintmax_t kept : {uintmax_t{0}, uintmax_t{5}, size - 1}) {
    fs::resize_file(file, kept);
    RuntimeCachePool::clear();  // as in another process
    auto delegate = Delegate::load(add(1));
    ASSERT_TRUE(delegate.ok());
    expect_adds(*delegate, 1);
    EXPECT_EQ(fs::file_size(file), size) << kept;
  }
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(size) - 1)
      .put('X');
  RuntimeCachePool::clear();
  const CapturedLog log;
  EXPECT_TRUE(Delegate::load(add(1)).ok());
  EXPECT_TRUE(log.contains("Removing the damaged kernel cache file")) << log.text();
}

TEST_F(KernelFolder, ThatCannotBeWrittenCostsTimeOnly) {
  const fs::path blocked = kernel_folder() / "file";
  std::ofstream(blocked) << "no folder";
  std::string value = blocked.string();
  auto setting = text_option("runtime_cache_folder", value);
  ASSERT_EQ(executorch::runtime::set_option("TensorRTBackend", {&setting, 1}), Error::Ok);
  const CapturedLog log;
  auto delegate = Delegate::load(add(1));
  ASSERT_TRUE(delegate.ok());
  expect_adds(*delegate, 1);
  EXPECT_TRUE(log.contains("could not be kept in " + value)) << log.text();
  EXPECT_TRUE(log.errors().empty());
}

TEST_F(KernelFolder, MayBeSwitchedOff) {
  auto setting = text_option("runtime_cache_folder", "off");
  ASSERT_EQ(executorch::runtime::set_option("TensorRTBackend", {&setting, 1}), Error::Ok);
  {
    auto delegate = Delegate::load(add(1));
  }
  EXPECT_TRUE(files().empty());
}

class RuntimeCaches : public KernelFolder {
 protected:
  static long caches() { return fake_cuda_count("live.tensorrt_caches"); }
  static long compilations() { return fake_cuda_count("live.tensorrt_compilations"); }
  static void load_and_unload(const FakeEngine& engine) {
    auto delegate = Delegate::load(engine);
    ASSERT_TRUE(delegate.ok());
    expect_adds(*delegate, 1);
  }
};

TEST_F(RuntimeCaches, AreUsedAgainByTheNextLoadOfTheEngine) {
  const long before = compilations();
  for (int round = 0; round < 20; ++round) {
    load_and_unload(add(1));
    EXPECT_EQ(caches(), 1);
  }
  EXPECT_EQ(compilations() - before, 1);
  load_and_unload(add(1, 0, 1));
  EXPECT_EQ(caches(), 2) << "another GPU has its own";
}

TEST_F(RuntimeCaches, ServeOneEngineAtATime) {
  LoadRequest request;
  request.options = {option("use_shared_engines", false)};
  load_and_unload(add(1));
  auto first = Delegate::load(add(1), request);
  auto second = Delegate::load(add(1), request);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(caches(), 2);
}

TEST_F(RuntimeCaches, FillAFolderThatWasChosenLater) {
  load_and_unload(add(1));
  const fs::path other = kernel_folder() / "other";
  auto setting = text_option("runtime_cache_folder", other.string());
  ASSERT_EQ(executorch::runtime::set_option("TensorRTBackend", {&setting, 1}), Error::Ok);
  load_and_unload(add(1));
  EXPECT_FALSE(fs::is_empty(other));
}

// The fake TensorRT objects to a cache that goes while another GPU is current.
TEST_F(RuntimeCaches, GoWithTheirOwnGpuCurrent) {
  for (size_t i = 0; i < RuntimeCachePool::kLimit + 10; ++i) {
    auto delegate = Delegate::load(add(static_cast<double>(i), 0, static_cast<int>(i % 2)));
    ASSERT_TRUE(delegate.ok());
  }
  EXPECT_EQ(caches(), static_cast<long>(RuntimeCachePool::kLimit));
}

TEST_F(RuntimeCaches, DoNotWaitInAnyNumber) {
  for (size_t i = 0; i < RuntimeCachePool::kLimit + 10; ++i) {
    auto delegate = Delegate::load(add(static_cast<double>(i)));
    ASSERT_TRUE(delegate.ok());
  }
  EXPECT_EQ(caches(), static_cast<long>(RuntimeCachePool::kLimit));
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
