// gpu_cases PROGRAMS CASE...: runs cases on the programs that gpu.every_tensor.programs wrote, JSON line by
// line.
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "cases.h"
#include "gpu.h"
#include "report.h"

namespace {

const std::map<std::string, void (*)(cases::Folder)> kCases = {{"memory_modes", cases::memory_modes},
                                                               {"pointer_kinds", cases::pointer_kinds},
                                                               {"other_gpu", cases::other_gpu},
                                                               {"device_path", cases::device_path},
                                                               {"streams", cases::streams},
                                                               {"threads", cases::threads},
                                                               {"host_path", cases::host_path},
                                                               {"green_context", cases::green_context},
                                                               {"replays", cases::replays},
                                                               {"million", cases::million},
                                                               {"sharing", cases::sharing},
                                                               {"chain", cases::chain},
                                                               {"warm", cases::warm},
                                                               {"load_time", cases::load_time},
                                                               {"load_rounds", cases::load_rounds}};

void run(const std::string& name, cases::Folder programs) try {
  const auto found = kCases.find(name);
  if (found == kCases.end()) throw std::runtime_error("there is no such case");
  found->second(programs);
} catch (const std::exception& error) {
  report::broken(name, error.what());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "gpu_cases: give the folder of the programs and the cases to run, such as: gpu_cases "
                 "programs streams\n");
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "gpu_cases: no NVIDIA GPU was found; run it on a machine with one.\n");
    return 3;
  }
  for (int i = 2; i < argc; ++i) run(argv[i], argv[1]);
  return 0;
}
