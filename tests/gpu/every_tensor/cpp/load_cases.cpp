// How long a load takes: once with an empty folder for kernels, once in a later process.
#include <cstdlib>

#include "cases.h"
#include "program.h"
#include "report.h"
#include "timing.h"

namespace cases {

/// Times one load of the program that GPU_CASES_LOAD names. Another program before it opens the libraries.
void load_time(Folder programs) {
  const char* name = std::getenv("GPU_CASES_LOAD");
  if (name == nullptr) throw std::runtime_error("GPU_CASES_LOAD does not name a program");
  Program(programs / "affine.device.pte").load();
  const double time = timing::microseconds([&] { Program(programs / (std::string(name) + ".pte")).load(); });
  report::note("load", name, time * 1e-6);
}

}  // namespace cases
