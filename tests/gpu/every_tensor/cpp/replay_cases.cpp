// CUDA graph replay: never a stale answer, and no memory that grows.
#include <executorch/backends/tensorrt/caller_stream.h>

#include "cases.h"
#include "program.h"
#include "report.h"
#include "timing.h"

namespace cases {

namespace {

using executorch::backends::tensorrt::CallerStreamGuard;
using gpu::Memory;
using gpu::Where;

constexpr int kReplays = 1'000'000;
constexpr int kBatch = 1000;
constexpr size_t kSample = 64;  // elements of each output that are looked at

/// Groups of calls with two inputs, AAAAABBBBB, and addresses that are new for every call.
void alternating(Folder programs) {
  size_t count = 0;
  for (const bool scratch : {false, true}) {
    Program program(programs / "affine.device.pte", {true, scratch});
    program.load();
    Memory a(Where::kDevice, program.input_bytes()), b(Where::kDevice, program.input_bytes());
    for (int call = 0; call < 200; ++call) {
      Memory fresh(Where::kDevice, program.input_bytes());
      Memory& memory = call >= 150 ? fresh : call / 5 % 2 == 0 ? a : b;
      const auto x = numbers(memory.size_bytes() / sizeof(float), call);
      memory.fill(x);
      count += wrong_at(x, program.run(program.on_device(memory.data())));
    }
  }
  report::check("replay.never_stale", static_cast<double>(count), 0, "elements that differ");
}

/// Shared scratch and replay together on two streams and two different engines: each keeps its results.
void scratch_with_replay(Folder programs) {
  Program one(programs / "encoder.device.pte", {true, true}),
      two(programs / "encoder_8_256.device.pte", {true, true});
  Program* both[] = {&one, &two};
  gpu::Stream streams[2];
  std::vector<std::unique_ptr<Memory>> inputs;
  std::vector<std::vector<uint16_t>> expected;
  for (int i = 0; i < 2; ++i) {
    both[i]->load();
    const size_t bytes = both[i]->input_bytes();
    inputs.push_back(std::make_unique<Memory>(Where::kDevice, bytes));
    inputs[i]->fill(halves(bytes / 2));
    Program alone(programs / (i == 0 ? "encoder.device.pte" : "encoder_8_256.device.pte"), {false, false});
    expected.push_back(gpu::read<uint16_t>(alone.run(alone.on_device(inputs[i]->data())), bytes / 2));
  }
  size_t count = 0;
  for (int round = 0; round < 50; ++round) {
    const void* outputs[2] = {};
    for (int i = 0; i < 2; ++i) {
      const CallerStreamGuard guard(streams[(round / 7 + i) % 2].get());
      outputs[i] = both[i]->run(both[i]->on_device(inputs[i]->data()));
    }
    for (int i = 0; i < 2; ++i) count += gpu::read<uint16_t>(outputs[i], expected[i].size()) != expected[i];
  }
  report::check("scratch_with_replay.right", static_cast<double>(count), 0, "outputs of 100 that differ");
  report::note("scratch_with_replay", "replays", static_cast<double>(total("calls.replay")));
}

/// Inputs at two addresses in turns, with new values in each batch, and a piece of every output kept for a
/// look.
class Million {
 public:
  explicit Million(Folder programs)
      : program_(programs / "affine.device.pte", {true, {}}),
        elements_(load() / sizeof(float)),
        a_(Where::kDevice, elements_ * sizeof(float)),
        b_(Where::kDevice, elements_ * sizeof(float)),
        samples_(Where::kDevice, kBatch * kSample * sizeof(float)) {}

  void run() {
    const CallerStreamGuard guard(stream_.get());
    const uint64_t replays = total("calls.replay");
    size_t free_before = 0, resident_before = 0;
    for (int batch = 0; batch < kReplays / kBatch; ++batch) {
      one_batch(batch);
      if (batch == kReplays / kBatch / 10) {
        free_before = gpu::free_bytes();
        resident_before = gpu::resident_bytes();
      }
    }
    const double lost = static_cast<double>(free_before) - static_cast<double>(gpu::free_bytes());
    const double grown = static_cast<double>(gpu::resident_bytes()) - static_cast<double>(resident_before);
    report::check("replay_million.right", static_cast<double>(wrong_), 0,
                  "elements that differ, 64 of each output looked at");
    report::check("replay_million.replays", static_cast<double>(total("calls.replay") - replays),
                  kReplays - 4, "calls", true);
    report::check("replay_million.memory_flat", lost, 2 << 20, "bytes of device memory lost in 900000 calls");
    report::check("replay_million.rss_flat", grown, 4 << 20, "bytes of host memory in 900000 calls");
  }

 private:
  size_t load() {
    program_.load();
    return program_.input_bytes();
  }

  void one_batch(int batch) {
    const std::vector<float> x[2] = {numbers(elements_, 2 * batch), numbers(elements_, 2 * batch + 1)};
    a_.fill(x[0]);
    b_.fill(x[1]);
    const TensorPtr inputs[2] = {program_.on_device(a_.data()), program_.on_device(b_.data())};
    for (int i = 0; i < kBatch; ++i) {
      const auto* output = static_cast<const float*>(program_.run(inputs[i % 2]));
      gpu::check(cudaMemcpyAsync(static_cast<float*>(samples_.data()) + i * kSample, output + start(i),
                                 kSample * sizeof(float), cudaMemcpyDeviceToDevice, stream_.get()),
                 "cudaMemcpyAsync");
    }
    const auto samples = gpu::read<float>(samples_.data(), kBatch * kSample);
    for (int i = 0; i < kBatch; ++i) {
      for (size_t k = 0; k < kSample; ++k)
        wrong_ += samples[i * kSample + k] != 2 * x[i % 2][start(i) + k] + 1;
    }
  }

  /// Where the sample of a call starts: over a batch every element is looked at.
  size_t start(int call) const { return static_cast<size_t>(call) * kSample % elements_; }

  Program program_;
  size_t elements_;
  Memory a_, b_, samples_;
  gpu::Stream stream_;
  size_t wrong_ = 0;
};

}  // namespace

void replays(Folder programs) {
  alternating(programs);
  scratch_with_replay(programs);
}

void million(Folder programs) {
  Million million(programs);
  report::note("replay_million", "seconds", timing::microseconds([&] { million.run(); }) * 1e-6);
}

}  // namespace cases
