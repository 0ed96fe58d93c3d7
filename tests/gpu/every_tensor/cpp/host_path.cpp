// Host tensors in and out against a pinned pipeline written by hand around the same engine.
#include <executorch/backends/tensorrt/caller_stream.h>

#include "cases.h"
#include "program.h"
#include "report.h"
#include "timing.h"

namespace cases {

namespace {

using executorch::backends::tensorrt::CallerStreamGuard;
using executorch::runtime::etensor::DeviceType;
using gpu::Memory;
using gpu::Where;

/// The engine without the delegate's host path: staging memory and copies of one's own, one wait at the end.
class Pipeline {
 public:
  Pipeline(const std::filesystem::path& path, size_t bytes)
      : program_(path),
        pinned_in_(Where::kPinned, bytes),
        pinned_out_(Where::kPinned, bytes),
        device_(Where::kDevice, bytes),
        input_(program_.on_device(device_.data())) {
    program_.load();
  }

  /// From and to ordinary host memory.
  void run(const void* in, void* out) {
    std::memcpy(pinned_in_.data(), in, pinned_in_.size_bytes());
    run_pinned(pinned_in_.data(), pinned_out_.data());
    std::memcpy(out, pinned_out_.data(), pinned_out_.size_bytes());
  }

  /// From and to page-locked memory.
  void run_pinned(const void* in, void* out) {
    const CallerStreamGuard guard(stream_.get());
    copy(device_.data(), in);
    copy(out, program_.run(input_));
    stream_.synchronize();
  }

 private:
  void copy(void* to, const void* from) {
    gpu::check(cudaMemcpyAsync(to, from, device_.size_bytes(), cudaMemcpyDefault, stream_.get()),
               "cudaMemcpyAsync");
  }

  Program program_;
  Memory pinned_in_;
  Memory pinned_out_;
  Memory device_;
  TensorPtr input_;
  gpu::Stream stream_;
};

void compare(Folder programs, const std::string& size, int rounds) {
  Program program(programs / ("copy_" + size + ".host.pte"));
  program.load();
  const size_t bytes = program.input_bytes();
  Pipeline pipeline(programs / ("copy_" + size + ".device.pte"), bytes);
  const auto x = numbers(bytes / sizeof(float), 2);
  Memory pageable(Where::kPageable, bytes), pinned(Where::kPinned, bytes), out(Where::kPageable, bytes),
      pinned_out(Where::kPinned, bytes);
  pageable.fill(x);
  pinned.fill(x);
  const TensorPtr host = program.tensor(pageable.data(), DeviceType::CPU);
  const TensorPtr locked = program.tensor(pinned.data(), DeviceType::CPU);
  const void* result = nullptr;
  const auto times = timing::medians(
      {[&] { result = program.run(host); }, [&] { pipeline.run(pageable.data(), out.data()); },
       [&] { program.run(locked); }, [&] { pipeline.run_pinned(pinned.data(), pinned_out.data()); }},
      rounds);
  const size_t count = wrong_at(x, result) + wrong_at(x, out.data());
  report::check("host_path.right", static_cast<double>(count), 0, "elements that differ");
  report::check("host_path_vs_pinned." + size, times[0] / times[1], 1.10, "times the time by hand");
  report::note("host_path_" + size, "ours_us", times[0]);
  report::note("host_path_" + size, "by_hand_us", times[1]);
  report::note("host_path_" + size, "ours_from_pinned_us", times[2]);
  report::note("host_path_" + size, "by_hand_from_and_to_pinned_us", times[3]);
}

}  // namespace

void host_path(Folder programs) {
  compare(programs, "1mb", 200);
  compare(programs, "64mb", 20);
}

}  // namespace cases
