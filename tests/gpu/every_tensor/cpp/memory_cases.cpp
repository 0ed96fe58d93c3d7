// Who owns the memory of inputs and outputs, and of which kind it is.
#include "cases.h"
#include "program.h"
#include "report.h"

#include <executorch/backends/tensorrt/caller_stream.h>

#include <functional>

namespace cases {

namespace {

using executorch::backends::tensorrt::CallerStreamGuard;
using executorch::runtime::etensor::Device;
using executorch::runtime::etensor::DeviceType;
using gpu::Memory;
using gpu::Where;

constexpr int kCalls = 3;

/// Runs `call` on several inputs in memory of one kind; counts wrong elements, `-1` for a call that fails.
double wrong_calls(Program& program, Where where, DeviceType claim,
                   const std::function<const void*(const EValue&)>& call) {
  size_t count = 0;
  for (int seed = 0; seed < kCalls; ++seed) {
    Memory memory(where, program.input_bytes());
    const auto x = numbers(memory.size_bytes() / sizeof(float), seed);
    memory.fill(x);
    count += wrong_at(x, call(program.tensor(memory.data(), claim)));
  }
  return static_cast<double>(count);
}

/// A check on its own: what throws is a failed check and no end of the others.
void check(const std::string& name, const std::function<double()>& measure) try {
  report::check(name, measure(), 0, "elements that differ");
} catch (const std::exception& error) {
  report::broken(name, error.what());
}

void planned_outputs(Folder programs, const std::string& mode, Where where, DeviceType claim) {
  check("memory_modes.cpp." + mode, [&] {
    Program program(programs / ("affine." + mode + ".pte"));
    return wrong_calls(program, where, claim, [&](const EValue& x) { return program.run(x); });
  });
}

/// The caller gives the output's memory once, and results land in it.
void own_outputs(Folder programs, const std::string& mode, Where in, DeviceType in_claim, Where out,
                 DeviceType out_claim) {
  check("memory_modes.cpp." + mode, [&] {
    Program program(programs / ("affine." + mode + ".pte"));
    program.load();
    Memory output(out, program.input_bytes());
    require(program.module().set_output(program.tensor(output.data(), out_claim)), "set_output");
    return wrong_calls(program, in, in_claim, [&](const EValue& x) {
      if (program.run(x) != output.data())
        throw std::runtime_error("the result is not in the caller's memory");
      return output.data();
    });
  });
}

void per_method(Folder programs) {
  check("memory_modes.cpp.per_method", [&] {
    Program program(programs / "affine.per_method.pte");
    const auto on_device = [&](const EValue& x) { return program.run(x); };
    const auto on_host = [&](const EValue& x) { return program.run(x, "forward_from_host"); };
    return wrong_calls(program, Where::kDevice, DeviceType::CUDA, on_device) +
           wrong_calls(program, Where::kPageable, DeviceType::CPU, on_host);
  });
}

void cloned_tensor(Folder programs) {
  check("memory_modes.cpp.clone_tensor_ptr_to", [&] {
    Program program(programs / "affine.device.pte");
    auto x = numbers(program.input_bytes() / sizeof(float), 5);
    auto host = program.tensor(x.data(), DeviceType::CPU);
    auto device = executorch::extension::clone_tensor_ptr_to(host, Device(DeviceType::CUDA));
    auto outputs = program.module().forward(device);
    require(outputs.error(), "running");
    auto back = executorch::extension::clone_tensor_ptr_to(
        executorch::extension::make_tensor_ptr(outputs->at(0).toTensor()), Device(DeviceType::CPU));
    return static_cast<double>(wrong_at(x, back->const_data_ptr()));
  });
}

/// A mistake gives an error, and the program still works afterwards.
void refused(Folder programs, const std::string& name, const std::string& mode,
             const std::function<Error(Program&)>& mistake, Where where, DeviceType claim) {
  check("memory_modes.cpp." + name, [&] {
    Program program(programs / ("affine." + mode + ".pte"));
    program.load();
    if (mistake(program) == Error::Ok) throw std::runtime_error("the mistake was not refused");
    if (mode == "device_unplanned_outputs") return 0.0;  // a good call needs an output first: see own_outputs
    return wrong_calls(program, where, claim, [&](const EValue& x) { return program.run(x); });
  });
}

Error run_with(Program& program, Where where, DeviceType claim) {
  Memory memory(where, program.input_bytes());
  memory.fill(numbers(memory.size_bytes() / sizeof(float), 1));
  return program.module().forward(program.tensor(memory.data(), claim)).error();
}

}  // namespace

void memory_modes(Folder programs) {
  planned_outputs(programs, "default", Where::kPageable, DeviceType::CPU);
  planned_outputs(programs, "planned_inputs", Where::kPageable, DeviceType::CPU);
  planned_outputs(programs, "unplanned_inputs", Where::kPageable, DeviceType::CPU);
  planned_outputs(programs, "skip_h2d", Where::kDevice, DeviceType::CUDA);
  planned_outputs(programs, "skip_d2h", Where::kPageable, DeviceType::CPU);
  planned_outputs(programs, "device", Where::kDevice, DeviceType::CUDA);
  own_outputs(programs, "unplanned_outputs", Where::kPageable, DeviceType::CPU, Where::kPageable,
              DeviceType::CPU);
  own_outputs(programs, "device_unplanned_outputs", Where::kDevice, DeviceType::CUDA, Where::kDevice,
              DeviceType::CUDA);
  per_method(programs);
  cloned_tensor(programs);
  check("memory_modes.cpp.host_tensor_for_device_program", [&] {
    Program program(programs / "affine.device.pte");
    return wrong_calls(program, Where::kPageable, DeviceType::CPU,
                       [&](const EValue& x) { return program.run(x); });
  });
  refused(
      programs, "device_tensor_for_planned_host_input", "planned_inputs",
      [](Program& program) { return run_with(program, Where::kDevice, DeviceType::CUDA); }, Where::kPageable,
      DeviceType::CPU);
  // An input that only the engine reads may lie on either side.
  check("memory_modes.cpp.device_tensor_for_host_program", [&] {
    Program program(programs / "affine.default.pte");
    return wrong_calls(program, Where::kDevice, DeviceType::CUDA,
                       [&](const EValue& x) { return program.run(x); }) +
           wrong_calls(program, Where::kPageable, DeviceType::CPU,
                       [&](const EValue& x) { return program.run(x); });
  });
  refused(
      programs, "output_without_memory", "device_unplanned_outputs",
      [](Program& program) { return run_with(program, Where::kDevice, DeviceType::CUDA); }, Where::kDevice,
      DeviceType::CUDA);
}

void pointer_kinds(Folder programs) {
  constexpr size_t kOffsets[] = {0, 4, 16, 128};
  for (const Where in : gpu::kEverywhere) {
    check(std::string("pointer.input_") + gpu::name_of(in), [&] {
      size_t count = 0;
      for (const size_t offset : kOffsets) {
        Program program(programs / "affine.device.pte");
        Memory memory(in, program.input_bytes(), offset);
        const auto x = numbers(memory.size_bytes() / sizeof(float), static_cast<int>(offset));
        memory.fill(x);
        count += wrong_at(x, program.run(program.on_device(memory.data())));
      }
      return static_cast<double>(count);
    });
    check(std::string("pointer.output_") + gpu::name_of(in), [&] {
      size_t count = 0;
      for (const size_t offset : kOffsets) {
        Program program(programs / "affine.device_unplanned_outputs.pte");
        program.load();
        Memory input(Where::kDevice, program.input_bytes());
        Memory output(in, program.input_bytes(), offset);
        require(program.module().set_output(program.on_device(output.data())), "set_output");
        const auto x = numbers(input.size_bytes() / sizeof(float), static_cast<int>(offset));
        input.fill(x);
        program.run(program.on_device(input.data()));
        count += wrong_at(x, output.data());
      }
      return static_cast<double>(count);
    });
  }
  check("pointer.kinds_take_turns", [&] {
    Program program(programs / "affine.device.pte");
    size_t count = 0;
    for (int round = 0; round < 20; ++round) {
      Memory memory(gpu::kEverywhere[round % 4], program.input_bytes(), kOffsets[round / 4 % 4]);
      const auto x = numbers(memory.size_bytes() / sizeof(float), round);
      memory.fill(x);
      count += wrong_at(x, program.run(program.on_device(memory.data())));
    }
    return static_cast<double>(count);
  });
}

namespace {

int current_gpu() {
  int device = -1;
  gpu::check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

/// Makes a GPU the current one for as long as this lives.
class CurrentGpu {
 public:
  explicit CurrentGpu(int device) : before_(current_gpu()) {
    gpu::check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~CurrentGpu() { cudaSetDevice(before_); }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  int before_;
};

/// Runs a program of either GPU while the other one is current, which it must stay.
double wrong_beside(Folder programs, const std::string& mode, int program_gpu, Where where, Device claim) {
  const int other = 1 - program_gpu;
  const CurrentGpu loading(other);
  Program program(programs / ("affine." + mode + ".pte"));
  size_t count = 0;
  for (int seed = 0; seed < kCalls; ++seed) {
    const CurrentGpu owner(program_gpu);
    Memory memory(where, program.input_bytes());
    const auto x = numbers(memory.size_bytes() / sizeof(float), seed);
    memory.fill(x);
    const CurrentGpu running(other);
    const void* y = program.run(program.tensor(memory.data(), claim));
    if (current_gpu() != other) throw std::runtime_error("the caller's GPU is no longer current");
    count += wrong_at(x, y);
  }
  return static_cast<double>(count);
}

}  // namespace

/// Programs of a GPU that is not the current one, and memory of a GPU that is not the program's. Needs two
/// GPUs.
void other_gpu(Folder programs) {
  int devices = 0;
  gpu::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (devices < 2) return;
  check("pointer.other_gpu", [&] {
    Program program(programs / "affine.device.pte");
    const CurrentGpu second(1);
    Memory elsewhere(Where::kDevice, program.input_bytes());
    const bool is_refused = !program.module().forward(program.on_device(elsewhere.data())).ok();
    if (!is_refused) throw std::runtime_error("the memory of GPU 1 was not refused");
    if (current_gpu() != 1) throw std::runtime_error("the caller's GPU is no longer current");
    return 0.0;
  });
  const auto beside = [&](const char* mode, int gpu, Where where, Device claim) {
    check(std::string("two_gpus.") + mode, [&] { return wrong_beside(programs, mode, gpu, where, claim); });
  };
  beside("default", 0, Where::kPageable, Device(DeviceType::CPU));
  beside("device", 0, Where::kDevice, Device(DeviceType::CUDA, 0));
  beside("second_gpu", 1, Where::kPageable, Device(DeviceType::CPU));
  beside("second_gpu_device", 1, Where::kDevice, Device(DeviceType::CUDA, 1));
}

void device_path(Folder programs) {
  constexpr int kRepeats = 100;
  for (const bool graphs : {false, true}) {
    Program program(programs / "affine.device.pte", {graphs, {}});
    program.load();
    Memory memory(Where::kDevice, program.input_bytes());
    const auto x = numbers(memory.size_bytes() / sizeof(float), 9);
    memory.fill(x);
    const TensorPtr input = program.on_device(memory.data());
    gpu::Stream stream;
    const CallerStreamGuard guard(stream.get());
    const void* output = program.run(input);
    const uint64_t copies = total("staged.inputs") + total("staged.outputs");
    const uint64_t waits = total("host_waits");
    const uint64_t bytes = total("copied_bytes");
    for (int i = 0; i < kRepeats; ++i) program.run(input);
    report::check("device_path.copies",
                  static_cast<double>(total("staged.inputs") + total("staged.outputs") - copies), 0,
                  "tensors copied in 100 calls");
    report::check("device_path.copied_bytes", static_cast<double>(total("copied_bytes") - bytes), 0,
                  "bytes in 100 calls");
    report::check("device_path.host_waits", static_cast<double>(total("host_waits") - waits), 0,
                  "waits in 100 calls");
    report::check("device_path.right", static_cast<double>(wrong_at(x, output)), 0, "elements that differ");
    if (graphs)
      report::check("device_path.replays", static_cast<double>(total("calls.replay")), kRepeats - 2, "calls",
                    true);
  }
}

}  // namespace cases
