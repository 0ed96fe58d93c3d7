// Runs one method of a .pte on raw tensor files, prints the largest values of each output and the time per
// call.
#include <executorch/extension/module/module.h>

#include <chrono>

#include "options.h"
#include "raw_tensor.h"

using executorch::extension::Module;
using executorch::runtime::Error;
using executorch::runtime::EValue;

void check(Error error, const std::string& what) {
  if (error == Error::Ok) return;
  throw std::runtime_error(what + ": " + executorch::runtime::to_string(error) + ". The log above says why.");
}

template <typename T>
T take(executorch::runtime::Result<T> result, const std::string& what) {
  check(result.error(), what);
  return std::move(*result);
}

std::vector<EValue> read_inputs(Module& module, const Options& options,
                                std::vector<executorch::extension::TensorPtr>& keep) {
  const auto meta = take(module.method_meta(options.method), "Cannot find method " + options.method);
  const size_t given = options.files.size() - 1;
  if (given != meta.num_inputs()) {
    throw std::runtime_error(options.method + " takes " + std::to_string(meta.num_inputs()) +
                             " input files, not " + std::to_string(given) + ".");
  }
  if (options.shapes.size() > given) {
    throw std::runtime_error(std::to_string(options.shapes.size()) + " times --shape for " +
                             std::to_string(given) + " input files.");
  }
  for (size_t i = 0; i < given; ++i) {
    const auto info = take(meta.input_tensor_meta(i), "Input " + std::to_string(i) + " is no tensor");
    const Shape largest(info.sizes().begin(), info.sizes().end());
    keep.push_back(read_tensor(options.files[i + 1], i < options.shapes.size() ? options.shapes[i] : largest,
                               info.scalar_type()));
  }
  return std::vector<EValue>(keep.begin(), keep.end());
}

void run(const Options& options) {
  Module module(options.files[0], Module::LoadMode::Mmap);
  check(module.load(), "Cannot load " + options.files[0]);
  std::vector<executorch::extension::TensorPtr> keep;
  const std::vector<EValue> inputs = read_inputs(module, options, keep);
  check(module.load_method(options.method), "Cannot load method " + options.method);
  std::vector<EValue> outputs =
      take(module.execute(options.method, inputs), "Cannot run " + options.method);  // warms up
  std::vector<double> times;
  for (int i = 0; i < options.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    outputs = take(module.execute(options.method, inputs), "Cannot run " + options.method);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].isTensor()) continue;
    print_tensor(i, outputs[i].toTensor());
    if (!options.output.empty())
      write_tensor(options.output + std::to_string(i) + ".bin", outputs[i].toTensor());
  }
  std::sort(times.begin(), times.end());
  std::printf("time per call: %.1f us (median of %zu)\n", times[times.size() / 2], times.size());
}

int main(int argc, char** argv) try {
  run(parse({argv + 1, argv + argc}));
} catch (const std::exception& error) {
  std::fprintf(stderr, "cpp_runner: %s\n", error.what());
  return 1;
}
