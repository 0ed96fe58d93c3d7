// Loads, runs and destructions in any order, from any thread, on either GPU.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <thread>

#include "executorch/c_api.h"
#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/delegate.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

using executorch::runtime::Error;
using Floats = TestTensor<float>;

/// y = x + `add`.
FakeEngine add(int value, int device = 0) {
  FakeEngine engine;
  engine.input("x", "float32", {-1}, {{{1}, {64}}}).output("y", "float32", {-1});
  engine.linear("y", {"x"}, {}, value).engine_property("weight_bytes", "64").device(device);
  return engine;
}

void expect_adds(Delegate& delegate, float value, SizesType size = 3) {
  const auto count = static_cast<size_t>(size);
  Floats x({size}, std::vector<float>(count, 1));
  Floats y({64}, std::vector<float>(64));
  ASSERT_EQ(delegate.run({x, y}), Error::Ok);
  ASSERT_EQ(y.values(), std::vector<float>(count, 1 + value));
}

class Lifetime : public FakeMachine {};

TEST_F(Lifetime, TwoHundredRoundsLeaveNothing) {
  {
    ASSERT_TRUE(Delegate::load(add(1)).ok());
  }
  const long device_bytes = fake_cuda_count("live.device_bytes");
  for (int round = 0; round < 200; ++round) {
    auto delegate = Delegate::load(add(round, round % 2));
    ASSERT_TRUE(delegate.ok());
    expect_adds(*delegate, static_cast<float>(round), 1 + round % 64);
  }
  EXPECT_EQ(fake_cuda_count("live.device_bytes"), device_bytes);
}

TEST_F(Lifetime, LoadsRunsAndDestructionsMix) {
  std::mt19937 random(7);
  std::vector<std::pair<int, std::unique_ptr<Delegate>>> loaded;
  for (int step = 0; step < 300; ++step) {
    const auto choice = random() % 3;
    if (choice == 0 || loaded.empty()) {
      const int value = static_cast<int>(random() % 100);
      auto delegate = Delegate::load(add(value, static_cast<int>(random() % 2)));
      ASSERT_TRUE(delegate.ok());
      loaded.emplace_back(value, std::make_unique<Delegate>(std::move(*delegate)));
    } else {
      const size_t index = random() % loaded.size();
      if (choice == 1) {
        expect_adds(*loaded[index].second, static_cast<float>(loaded[index].first));
      } else {
        loaded.erase(loaded.begin() + static_cast<std::ptrdiff_t>(index));
      }
    }
  }
}

TEST_F(Lifetime, AFailedLoadDoesNotDisturbWhatIsLoaded) {
  auto delegate = Delegate::load(add(5));
  ASSERT_TRUE(delegate.ok());
  {
    const CapturedLog log;
    EXPECT_FALSE(Delegate::load(add(1, 9)).ok());
    EXPECT_FALSE(Delegate::load(std::vector<uint8_t>(100, 1)).ok());
  }
  expect_adds(*delegate, 5);
}

TEST_F(Lifetime, EveryThreadMayHaveItsOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 20; ++round) {
        auto delegate = Delegate::load(add(10 * t + round, (t + round) % 2));
        ASSERT_TRUE(delegate.ok());
        for (SizesType size = 1; size < 6; ++size) {
          expect_adds(*delegate, static_cast<float>(10 * t + round), size);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(Lifetime, OneEngineServesManyThreads) {
  auto delegate = Delegate::load(add(3));
  ASSERT_TRUE(delegate.ok());
  std::vector<std::thread> threads;
  for (SizesType t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        expect_adds(*delegate, 3, t);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(Lifetime, ThreadsOfLoadRunAndDestroyMayDiffer) {
  std::unique_ptr<Delegate> delegate;
  std::thread([&] {
    auto loaded = Delegate::load(add(2, 1));
    ASSERT_TRUE(loaded.ok());
    delegate = std::make_unique<Delegate>(std::move(*loaded));
  }).join();
  std::thread([&] { expect_adds(*delegate, 2); }).join();
  std::thread([&] { delegate.reset(); }).join();
}

/// Keeps what is queued behind it on a stream waiting until it is opened.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    const auto wait = [](void* gate) {
      auto& self = *static_cast<Gate*>(gate);
      self.reached_.set_value();
      self.opened_.get_future().wait();
    };
    cudaLaunchHostFunc(stream, wait, this);
  }
  void wait_until_reached() { reached_.get_future().wait(); }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> reached_;
  std::promise<void> opened_;
};

// A lock that lay in what is destroyed would be gone under the call.
TEST_F(Lifetime, ADestructionWaitsForTheCallInProgress) {
  auto loaded = Delegate::load(add(2));
  ASSERT_TRUE(loaded.ok());
  auto delegate = std::make_unique<Delegate>(std::move(*loaded));
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  Gate gate(stream);
  std::thread running([&] {
    tensorrt_executorch_set_caller_stream(stream);
    expect_adds(*delegate, 2);
    tensorrt_executorch_clear_caller_stream();
  });
  gate.wait_until_reached();
  const long calls = fake_cuda_count("calls");
  std::thread destroying([&] { backend()->destroy(delegate->release()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(fake_cuda_count("calls"), calls) << "something is released under the running call";
  gate.open();
  running.join();
  destroying.join();
  cudaStreamDestroy(stream);
}

class Devices : public FakeMachine {};

TEST_F(Devices, EnginesRunOnTheirOwnGpuWhateverIsCurrent) {
  auto first = Delegate::load(add(1, 0));
  auto second = Delegate::load(add(2, 1));
  ASSERT_TRUE(first.ok() && second.ok());
  for (const int current : {0, 1}) {
    cudaSetDevice(current);
    for (int round = 0; round < 3; ++round) {
      expect_adds(*first, 1);
      expect_adds(*second, 2);
      int device = -1;
      cudaGetDevice(&device);
      EXPECT_EQ(device, current);
    }
  }
  cudaSetDevice(0);
}

TEST_F(Devices, LoadAndDestructionRestoreTheCallersGpu) {
  cudaSetDevice(0);
  {
    auto delegate = Delegate::load(add(1, 1));
    int device = -1;
    cudaGetDevice(&device);
    EXPECT_EQ(device, 0);
  }
  int device = -1;
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0);
  const CapturedLog log;
  FakeEngine broken = add(1, 1);
  broken.engine_property("compute_capabilities", R"(["1.0"])");
  EXPECT_FALSE(Delegate::load(broken).ok());
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0);
}

TEST_F(Devices, MemoryOfTheEnginesGpuIsUsedInPlace) {
  auto delegate = Delegate::load(add(1, 1));
  ASSERT_TRUE(delegate.ok());
  Floats x(Floats::Kind::kDevice, {2}, {1, 2}, 1);
  Floats y(Floats::Kind::kDevice, {2}, {0, 0}, 1);
  const long copies = fake_cuda_count("calls.cudaMemcpyAsync");
  ASSERT_EQ(delegate->run({x, y}), Error::Ok);
  EXPECT_EQ(fake_cuda_count("calls.cudaMemcpyAsync"), copies);
  EXPECT_EQ(y.values(), (std::vector<float>{2, 3}));
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
