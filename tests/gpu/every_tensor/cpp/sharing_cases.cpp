// What many loads and many engines hold together.
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

constexpr int kLoads = 8;
constexpr int kRounds = 100;

std::vector<std::string> sorted_methods(Program& program) {
  auto names = program.module().method_names();
  require(names.error(), "method names");
  std::vector<std::string> methods(names->begin(), names->end());
  std::sort(methods.begin(), methods.end());
  return methods;
}

/// All methods of the chain, each on the output of the one before, on one stream with one wait at the end.
class Chain {
 public:
  Chain(Folder programs, Wishes wishes)
      : program_(programs / "chain.device.pte", wishes), methods_(sorted_methods(program_)) {
    for (const auto& method : methods_) {
      const uint64_t before = total("device.scratch");
      program_.load(method);
      largest_need_ = std::max(largest_need_, total("device.scratch") - before);
    }
    input_ = std::make_unique<Memory>(Where::kDevice, program_.input_bytes(methods_.front()));
    input_->fill(halves(input_->size_bytes() / 2));
    void* data = input_->data();
    for (const auto& method : methods_) {
      tensors_.emplace_back(program_.on_device(data, method));
      const CallerStreamGuard guard(stream_.get());
      data = program_.run(tensors_.back(), method);
    }
    stream_.synchronize();
    output_ = data;
  }

  void run() {
    const CallerStreamGuard guard(stream_.get());
    for (size_t i = 0; i < methods_.size(); ++i) program_.run(tensors_[i], methods_[i]);
    stream_.synchronize();
  }

  std::vector<uint16_t> result() { return gpu::read<uint16_t>(output_, input_->size_bytes() / 2); }
  uint64_t largest_need() const { return largest_need_; }

 private:
  Program program_;
  std::vector<std::string> methods_;
  std::unique_ptr<Memory> input_;
  std::vector<TensorPtr> tensors_;
  gpu::Stream stream_;
  const void* output_ = nullptr;
  uint64_t largest_need_ = 0;
};

}  // namespace

/// The memory of further loads of one program, in shares of its weights; scratch is shared as well.
void sharing(Folder programs) {
  const auto path = programs / "resnet18.device.pte";
  const Wishes wishes{true, true};
  std::vector<std::unique_ptr<Program>> loads;
  const auto load = [&] {
    loads.push_back(std::make_unique<Program>(path, wishes));
    loads.back()->load();
    return gpu::free_bytes();
  };
  load();
  const uint64_t weights = total("device.weights");
  size_t before = load();
  size_t after = before;
  for (int i = 0; i < kLoads; ++i) after = load();
  const double each = (static_cast<double>(before) - static_cast<double>(after)) / kLoads;
  report::check("second_load.extra_weight_share", each / static_cast<double>(weights), 0.03,
                "of the weights, for each further load");
  report::note("second_load", "weights_bytes", static_cast<double>(weights));
  report::note("second_load", "extra_bytes", each);
}

/// 32 engines in a chain: scratch with and without sharing, and the time of a pass.
void chain(Folder programs) {
  Chain own(programs, {false, false});
  const auto expected = own.result();
  const uint64_t need = own.largest_need();
  const size_t before = gpu::free_bytes();
  Chain own_again(programs, {true, false});
  const size_t between = gpu::free_bytes();
  Chain shared(programs, {true, true});
  const size_t after = gpu::free_bytes();
  report::note("scratch_32_engines", "largest_need_bytes", static_cast<double>(need));
  report::note("scratch_32_engines", "device_bytes_each_its_own",
               static_cast<double>(before) - static_cast<double>(between));
  report::note("scratch_32_engines", "device_bytes_shared",
               static_cast<double>(between) - static_cast<double>(after));
  require(need > 0 ? Error::Ok : Error::Internal, "engines with scratch");
  report::check("scratch_32_engines.ratio",
                static_cast<double>(total("device.shared_scratch")) / static_cast<double>(need), 1.1,
                "times the largest need");
  // What the driver says: without scratch of their own, the contexts take much less.
  report::check("scratch_32_engines.device_bytes",
                (static_cast<double>(between) - static_cast<double>(after)) /
                    (static_cast<double>(before) - static_cast<double>(between)),
                0.2, "of the memory that engines with scratch of their own take");
  const auto times =
      timing::medians({[&] { own.run(); }, [&] { own_again.run(); }, [&] { shared.run(); }}, kRounds);
  report::check("scratch_32_engines.right",
                expected != own.result() || expected != own_again.result() || expected != shared.result(), 0,
                "chains that differ");
  report::note("chain", "plain_us", times[0]);
  report::note("chain", "replay_us", times[1]);
  report::note("chain", "replay_shared_scratch_us", times[2]);
}

}  // namespace cases
