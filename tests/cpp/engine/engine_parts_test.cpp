// The small parts of the engine layer, without an engine.

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "engine/data_type.h"
#include "engine/populate_heap.h"
#include "engine/replay.h"
#include "engine/shape_plans.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

TEST(DataTypes, MapOneToOne) {
  const std::pair<abi::DataType, ScalarType> pairs[] = {
      {abi::DataType::kFloat, ScalarType::Float},   {abi::DataType::kHalf, ScalarType::Half},
      {abi::DataType::kBF16, ScalarType::BFloat16}, {abi::DataType::kInt8, ScalarType::Char},
      {abi::DataType::kUInt8, ScalarType::Byte},    {abi::DataType::kInt32, ScalarType::Int},
      {abi::DataType::kInt64, ScalarType::Long},    {abi::DataType::kBool, ScalarType::Bool}};
  for (const auto& [theirs, ours] : pairs) {
    EXPECT_EQ(scalar_type_of(theirs), ours);
  }
  for (const auto type : {abi::DataType::kFP8, abi::DataType::kInt4, abi::DataType::kFP4,
                          abi::DataType::kE8M0, static_cast<abi::DataType>(99)}) {
    EXPECT_EQ(scalar_type_of(type), std::nullopt);
  }
}

TEST(DataTypes, HaveNamesForPeople) {
  EXPECT_STREQ(name_of(ScalarType::BFloat16), "bfloat16");
  EXPECT_STREQ(name_of(ScalarType::ComplexFloat), "a type that no engine has");
  EXPECT_STREQ(name_of(abi::DataType::kE8M0), "E8M0");
  EXPECT_STREQ(name_of(static_cast<abi::DataType>(99)), "an unknown type");
  EXPECT_STREQ(name_of(static_cast<abi::DataType>(-1)), "an unknown type");
}

abi::Dims dims(std::initializer_list<int64_t> sizes) {
  abi::Dims result{static_cast<int32_t>(sizes.size()), {}};
  std::copy(sizes.begin(), sizes.end(), result.d);
  return result;
}

TEST(ShapePlans, RememberTheLastSixteen) {
  ShapePlans plans;
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(plans.find({dims({i})}), nullptr);
    plans.add({dims({i})}, {dims({i, i})});
    EXPECT_EQ(plans.find({dims({0})}) != nullptr, true) << "what is used stays, after " << i;
  }
  EXPECT_EQ(plans.find({dims({1})}), nullptr);
  ASSERT_NE(plans.find({dims({19})}), nullptr);
  EXPECT_EQ((*plans.find({dims({19})}))[0], dims({19, 19}));
  EXPECT_EQ(plans.find({dims({19, 1})}), nullptr);
}

class Replays : public FakeMachine {
 protected:
  Graph graph() {
    auto stream = Stream::create();
    const char* why = "";
    auto captured = Graph::capture(
        stream->view(),
        [&] { return cudaLaunchHostFunc(stream->view().get(), [](void*) {}, nullptr) == cudaSuccess; }, why);
    EXPECT_TRUE(captured.ok()) << why;
    return std::move(*captured);
  }
};

TEST_F(Replays, CaptureTheSecondCallOfAKey) {
  Replay replay;
  EXPECT_EQ(replay.next({1, 2}), Replay::Step::kPlain);
  EXPECT_EQ(replay.next({1, 3}), Replay::Step::kPlain);
  EXPECT_EQ(replay.next({1, 2}), Replay::Step::kCapture);
  replay.keep({1, 2}, graph(), 0);
  EXPECT_EQ(replay.next({1, 2}), Replay::Step::kReplay);
  EXPECT_EQ(replay.next({1, 3}), Replay::Step::kCapture);
  replay.give_up({1, 3});
  EXPECT_EQ(replay.next({1, 3}), Replay::Step::kPlain);
  EXPECT_EQ(replay.next({1, 2}), Replay::Step::kReplay);
}

TEST_F(Replays, AddressesThatChangeEveryTimeDriveOutNoGraph) {
  Replay replay;
  replay.next({0});
  replay.next({0});
  replay.keep({0}, graph(), 0);
  for (uint64_t address = 1; address < 100; ++address) {
    EXPECT_EQ(replay.next({address}), Replay::Step::kPlain);
  }
  EXPECT_EQ(replay.next({0}), Replay::Step::kReplay);
}

TEST_F(Replays, TheLeastRecentlyUsedGraphGoes) {
  Replay replay;
  for (uint64_t key = 0; key < 9; ++key) {
    replay.next({key});
    ASSERT_EQ(replay.next({key}), Replay::Step::kCapture);
    replay.keep({key}, graph(), 0);
    EXPECT_EQ(replay.next({0}), Replay::Step::kReplay) << "used all the time";
  }
  EXPECT_EQ(replay.graph_count(), 8u);
  EXPECT_EQ(fake_cuda_count("live.graphs"), 8);
  EXPECT_NE(replay.next({1}), Replay::Step::kReplay);
}

/// MADV_POPULATE_WRITE came with Linux 5.14.
bool kernel_populates() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool populates = madvise(memory, page, 23) == 0;
  munmap(memory, page);
  return populates;
}

/// How many pages this process brought in while it wrote to `count` new blocks.
long pages_brought_in(size_t count, size_t block_bytes) {
  const auto so_far = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  std::vector<std::unique_ptr<char[]>> blocks(count);
  const long before = so_far();
  for (auto& block : blocks) {
    block.reset(new char[block_bytes]);
    for (size_t i = 0; i < block_bytes; i += 1024) {
      static_cast<volatile char*>(block.get())[i] = 1;
    }
  }
  return so_far() - before;
}

TEST(Heap, IsPopulatedAheadOfItsUse) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer brings its own heap";
#endif
  if (!kernel_populates()) {
    GTEST_SKIP() << "this kernel brings in pages one by one";
  }
  constexpr size_t kBlock = 64 << 10;
  populate_heap(16 << 20);
  EXPECT_LT(pages_brought_in(128, kBlock), 300) << "8 MiB are 2048 pages";
}

TEST(Heap, IsLeftAloneForLittle) {
  populate_heap(0);
  populate_heap(1 << 10);
  populate_heap(size_t{1} << 40);  // takes no more than is of use
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
