// How long a load takes: once with an empty folder for kernels, once in a later process.
#include <cstdlib>

#include "cases.h"
#include "program.h"
#include "report.h"
#include "timing.h"

namespace cases {

namespace {

constexpr int kRounds = 200;
constexpr int kWarmUp = 50;

}  // namespace

/// Loading, running and destroying a program again and again leaves nothing behind.
void load_rounds(Folder programs) {
  const auto path = programs / "affine.device.pte";
  double resident = 0, used = 0;
  size_t count = 0;
  for (int round = 0; round < kRounds; ++round) {
    {
      Program program(path);
      program.load();
      gpu::Memory memory(gpu::Where::kDevice, program.input_bytes());
      const auto x = numbers(memory.size_bytes() / sizeof(float), round);
      memory.fill(x);
      count += wrong_at(x, program.run(program.on_device(memory.data())));
    }
    if (round == kWarmUp) {
      resident = static_cast<double>(gpu::resident_bytes());
      used = -static_cast<double>(gpu::free_bytes());
    }
  }
  report::check("load_rounds.cpp.right", static_cast<double>(count), 0, "elements that differ");
  report::check("load_rounds.cpp.rss_flat", static_cast<double>(gpu::resident_bytes()) - resident, 4 << 20,
                "bytes of host memory in 150 rounds");
  report::check("load_rounds.cpp.device_memory_flat", -static_cast<double>(gpu::free_bytes()) - used, 2 << 20,
                "bytes of device memory in 150 rounds");
}

/// Times one load of the program that GPU_CASES_LOAD names. Another program before it opens the libraries.
void load_time(Folder programs) {
  const char* name = std::getenv("GPU_CASES_LOAD");
  if (name == nullptr) throw std::runtime_error("GPU_CASES_LOAD does not name a program");
  Program(programs / "affine.device.pte").load();
  const double time = timing::microseconds([&] { Program(programs / (std::string(name) + ".pte")).load(); });
  report::note("load", name, time * 1e-6);
}

}  // namespace cases
