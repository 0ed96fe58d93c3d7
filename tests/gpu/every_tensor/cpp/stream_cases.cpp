// The caller's streams: work is ordered on them, and only there.
#include <executorch/backends/tensorrt/caller_stream.h>

#include <chrono>
#include <thread>

#include "cases.h"
#include "program.h"
#include "report.h"

namespace gpu {

void keep_busy(cudaStream_t stream, int microseconds) {
  const auto sleep = [](void* duration) {
    std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<intptr_t>(duration)));
  };
  check(cudaLaunchHostFunc(stream, sleep, reinterpret_cast<void*>(static_cast<intptr_t>(microseconds))),
        "cudaLaunchHostFunc");
}

}  // namespace gpu

namespace cases {

namespace {

using executorch::backends::tensorrt::CallerStreamGuard;
using gpu::Memory;
using gpu::Where;

constexpr int kCalls = 100;
constexpr int kBusyMicroseconds = 500;

/// What one call reads and writes: the values arrive in `input` only behind the long work on the stream.
struct Exchange {
  explicit Exchange(size_t bytes)
      : source(Where::kDevice, bytes), input(Where::kDevice, bytes), result(Where::kDevice, bytes) {}
  Memory source;
  Memory input;
  Memory result;
};

void copy(const Memory& to, const void* from, cudaStream_t stream) {
  gpu::check(cudaMemcpyAsync(to.data(), from, to.size_bytes(), cudaMemcpyDeviceToDevice, stream),
             "cudaMemcpyAsync");
}

/// Fills an input behind long work on a stream, runs, and copies the result away, all on the same stream.
void side_stream(Folder programs, bool graphs) {
  Program program(programs / "affine.device.pte", {graphs, {}});
  program.load();
  Exchange exchange(program.input_bytes());
  gpu::Stream stream;
  int right = 0;
  for (int i = 0; i < kCalls; ++i) {
    const auto x = numbers(exchange.source.size_bytes() / sizeof(float), i);
    exchange.source.fill(x);
    gpu::keep_busy(stream.get(), kBusyMicroseconds);
    copy(exchange.input, exchange.source.data(), stream.get());
    const CallerStreamGuard guard(stream.get());
    const void* output = program.run(program.on_device(exchange.input.data()));
    copy(exchange.result, output, stream.get());
    stream.synchronize();
    right += wrong_at(x, exchange.result.data()) == 0;
  }
  report::check("side_stream.right", right, kCalls, "of 100 calls", true);
}

/// A call on a busy stream returns before the stream has got to it.
void returns_at_once(Folder programs) {
  Program program(programs / "affine.device.pte");
  program.load();
  Exchange exchange(program.input_bytes());
  exchange.input.fill(numbers(exchange.input.size_bytes() / sizeof(float), 0));
  gpu::Stream stream;
  const CallerStreamGuard guard(stream.get());
  const TensorPtr input = program.on_device(exchange.input.data());
  program.run(input);
  stream.synchronize();
  gpu::keep_busy(stream.get(), 20000);
  program.run(input);
  report::check("stream.call_returns_before_its_work", cudaStreamQuery(stream.get()) == cudaErrorNotReady, 1,
                "yes is 1", true);
  stream.synchronize();
}

/// Two streams use one handle without any help: each call waits for the one before it on the device.
void two_streams(Folder programs, bool graphs) {
  Program program(programs / "affine.device_unplanned_outputs.pte", {graphs, {}});
  program.load();
  const size_t bytes = program.input_bytes();
  gpu::Stream streams[2];
  Exchange exchanges[2] = {Exchange(bytes), Exchange(bytes)};
  size_t count = 0;
  for (int round = 0; round < kCalls; ++round) {
    std::vector<float> x[2];
    for (int s = 0; s < 2; ++s) {
      x[s] = numbers(bytes / sizeof(float), 2 * round + s);
      exchanges[s].source.fill(x[s]);
    }
    gpu::keep_busy(streams[round % 2].get(), 200);
    for (int s = 0; s < 2; ++s) {
      copy(exchanges[s].input, exchanges[s].source.data(), streams[s].get());
      const CallerStreamGuard guard(streams[s].get());
      require(program.module().set_output(program.on_device(exchanges[s].result.data())), "set_output");
      program.run(program.on_device(exchanges[s].input.data()));
    }
    for (int s = 0; s < 2; ++s) count += wrong_at(x[s], exchanges[s].result.data());
  }
  report::check("stream.two_streams_one_handle", static_cast<double>(count), 0, "elements that differ");
}

void default_streams(Folder programs) {
  Program program(programs / "affine.device.pte");
  Exchange exchange(program.input_bytes());
  size_t count = 0;
  for (const cudaStream_t stream : {cudaStream_t{nullptr}, cudaStreamLegacy, cudaStreamPerThread}) {
    const auto x = numbers(exchange.source.size_bytes() / sizeof(float), static_cast<int>(count) + 3);
    exchange.source.fill(x);
    gpu::keep_busy(stream, kBusyMicroseconds);
    copy(exchange.input, exchange.source.data(), stream);
    const CallerStreamGuard guard(stream);
    count += wrong_at(x, program.run(program.on_device(exchange.input.data())));
  }
  report::check("stream.default_streams", static_cast<double>(count), 0, "elements that differ");
}

/// Delegates that follow one another on one stream: the host is not asked to wait in between.
void consecutive(Folder programs) {
  Program program(programs / "chain.device.pte");
  const auto methods = program.module().method_names();
  require(methods.error(), "method names");
  for (const auto& method : *methods) program.load(method);
  Memory memory(Where::kDevice, program.input_bytes("step_00"));
  gpu::check(cudaMemset(memory.data(), 0, memory.size_bytes()), "cudaMemset");
  gpu::Stream stream;
  const CallerStreamGuard guard(stream.get());
  const auto pass = [&] {
    void* data = memory.data();
    for (const auto& method : *methods) data = program.run(program.on_device(data, method), method);
  };
  pass();
  const uint64_t waits = total("host_waits");
  const uint64_t bytes = total("copied_bytes");
  pass();
  report::check("stream.host_waits_between_delegates", static_cast<double>(total("host_waits") - waits), 0,
                "waits of 32 delegates");
  report::check("stream.copies_between_delegates", static_cast<double>(total("copied_bytes") - bytes), 0,
                "bytes of 32 delegates");
  stream.synchronize();
}

}  // namespace

void streams(Folder programs) {
  for (const bool graphs : {false, true}) {
    side_stream(programs, graphs);
    two_streams(programs, graphs);
  }
  returns_at_once(programs);
  default_streams(programs);
  consecutive(programs);
}

}  // namespace cases
