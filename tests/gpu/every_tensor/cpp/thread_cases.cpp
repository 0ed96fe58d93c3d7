// Many threads: a program each, one program handed around, loads while others run.
#include <executorch/backends/tensorrt/caller_stream.h>

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "cases.h"
#include "program.h"
#include "report.h"

namespace cases {

namespace {

using executorch::backends::tensorrt::CallerStreamGuard;
using gpu::Memory;
using gpu::Where;

/// Runs `work(0) ... work(count - 1)` on threads of their own; the first failure is thrown once all have
/// ended.
void on_threads(int count, const std::function<void(int)>& work) {
  std::exception_ptr failure;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        failure = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

/// Calls with a stream of its own; the number of wrong elements.
size_t calls_on_own_stream(Program& program, int thread, int calls) {
  gpu::Stream stream;
  Memory memory(Where::kDevice, program.input_bytes());
  std::vector<float> result(memory.size_bytes() / sizeof(float));
  size_t count = 0;
  for (int i = 0; i < calls; ++i) {
    const auto x = numbers(result.size(), 1000 * thread + i);
    gpu::check(cudaMemcpyAsync(memory.data(), x.data(), memory.size_bytes(), cudaMemcpyDefault, stream.get()),
               "cudaMemcpyAsync");
    const CallerStreamGuard guard(stream.get());
    const void* output = program.run(program.on_device(memory.data()));
    gpu::check(cudaMemcpyAsync(result.data(), output, memory.size_bytes(), cudaMemcpyDefault, stream.get()),
               "cudaMemcpyAsync");
    stream.synchronize();
    count += wrong(x, result);
  }
  return count;
}

void program_each(Folder programs) {
  std::atomic<size_t> count{0};
  on_threads(8, [&](int thread) {
    Program program(programs / "affine.device.pte", {thread % 2 == 0, thread % 4 < 2});
    count += calls_on_own_stream(program, thread, 50);
  });
  report::check("threads.program_each", static_cast<double>(count), 0, "elements that differ");
}

void handed_around(Folder programs) {
  std::unique_ptr<Program> program;
  size_t count = 0;
  on_threads(1, [&](int) {
    program = std::make_unique<Program>(programs / "affine.device.pte", Wishes{true, {}});
    program->load();
  });
  on_threads(1, [&](int) { count = calls_on_own_stream(*program, 1, 20); });
  on_threads(1, [&](int) { program.reset(); });
  report::check("threads.load_run_destroy_on_three", static_cast<double>(count), 0, "elements that differ");
}

/// Graphs are captured on some threads while others load, destroy and synchronise the whole device.
void loads_while_others_run(Folder programs) {
  std::atomic<size_t> count{0};
  on_threads(8, [&](int thread) {
    for (int round = 0; round < 10; ++round) {
      Program program(programs / "affine.device.pte", {true, thread % 2 == 0});
      count += calls_on_own_stream(program, thread, thread < 4 ? 1 : 10);
      if (thread == 0) gpu::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
  });
  report::check("threads.loads_while_others_run", static_cast<double>(count), 0, "elements that differ");
}

}  // namespace

void threads(Folder programs) {
  program_each(programs);
  handed_around(programs);
  loads_while_others_run(programs);
}

/// Loads every method of every program, many at a time, so that their kernels are in the cache afterwards.
void warm(Folder programs) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(programs)) {
    if (entry.path().extension() == ".pte") files.push_back(entry.path());
  }
  std::vector<std::pair<std::filesystem::path, std::string>> loads;
  for (const auto& file : files) {
    Program program(file);
    const auto methods = program.module().method_names();
    if (!methods.ok()) continue;
    for (const auto& method : *methods) loads.emplace_back(file, method);
  }
  std::atomic<size_t> next{0}, failed{0};
  on_threads(16, [&](int) {
    for (size_t i = next++; i < loads.size(); i = next++) {
      try {
        Program(loads[i].first).load(loads[i].second);
      } catch (const std::exception& error) {
        ++failed;
        report::broken("warm." + loads[i].first.stem().string(), error.what());
      }
    }
  });
  report::check("load.all_at_once", static_cast<double>(failed), 0, "loads that failed on 16 threads");
}

}  // namespace cases
