// call_overhead MODEL.pte ENGINE: microseconds per call of the bare engine and of the same engine through ExecuTorch.
//
// MODEL.pte has one method "forward" whose tensors lie on the GPU (both copies at its boundary left out) and whose only
// delegate holds ENGINE, the serialized engine alone. Prints JSON: medians in microseconds.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/backend_options_map.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "cuda/graph.h"
#include "cuda/green_context.h"
#include "cuda/pointer.h"
#include "cuda/stream.h"
#include "engine/data_type.h"
#include "executorch/backends/tensorrt/caller_stream.h"
#include "tensorrt/library_search.h"
#include "tensorrt/objects.h"

using namespace executorch::backends::tensorrt;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

namespace {

constexpr int kWarmUp = 50;
constexpr int kCalls = 2000;

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "call_overhead: %s failed\n", what);
    std::exit(1);
  }
}

double median_us(const std::function<void()>& call, int calls = kCalls) {
  for (int i = 0; i < kWarmUp; ++i) {
    call();
  }
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

std::vector<uint8_t> file_bytes(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t bytes_of(const Engine& engine, const char* name) {
  const abi::Dims shape = engine.shape(name);
  size_t count = 1;
  for (int i = 0; i < shape.nb_dims; ++i) count *= static_cast<size_t>(shape.d[i]);
  return count * 8;
}

void bare_engine(const char* path, std::map<std::string, double>& times) {
  auto library = find_library(Product::kTensorRTRTX);
  require(library.ok(), "finding TensorRT");
  auto runtime = Runtime::of(**library);
  require(runtime.ok(), "creating a runtime");
  const auto bytes = file_bytes(path);
  std::string reason;
  auto engine = (*runtime)->deserialize({bytes.data(), bytes.size()}, reason);
  require(engine.ok(), "deserializing");
  auto config = engine->create_runtime_config(**library);
  require(config.ok(), "creating a config");
  auto context = engine->create_context(*config);
  require(context.ok(), "creating a context");
  for (int32_t i = 0; i < engine->tensor_count(); ++i) {
    void* memory = nullptr;
    require(cudaMalloc(&memory, bytes_of(*engine, engine->tensor_name(i))) == cudaSuccess, "cudaMalloc");
    require(cudaMemset(memory, 0, bytes_of(*engine, engine->tensor_name(i))) == cudaSuccess, "cudaMemset");
    require(context->set_tensor_address(engine->tensor_name(i), memory), "binding");
  }
  auto stream = Stream::create();
  require(stream.ok(), "creating a stream");
  times["bare_enqueue"] = median_us([&] {
    context->enqueue(stream->view().get());
    cudaStreamSynchronize(stream->view().get());
  });
  const char* why = "";
  auto graph = Graph::capture(stream->view(), [&] { return context->enqueue(stream->view().get()); }, why);
  require(graph.ok(), why);
  times["bare_graph_launch"] = median_us([&] {
    static_cast<void>(graph->launch(stream->view()));
    cudaStreamSynchronize(stream->view().get());
  });
}

struct DeviceInputs {
  std::vector<TensorPtr> tensors;
  std::vector<EValue> values;
};

DeviceInputs device_inputs(Module& module) {
  auto meta = module.method_meta("forward");
  require(meta.ok(), "reading the method");
  DeviceInputs inputs;
  for (size_t i = 0; i < meta->num_inputs(); ++i) {
    auto info = meta->input_tensor_meta(i);
    void* memory = nullptr;
    require(cudaMalloc(&memory, info->nbytes()) == cudaSuccess && cudaMemset(memory, 0, info->nbytes()) == cudaSuccess, "cudaMalloc");
    std::vector<executorch::aten::SizesType> sizes(info->sizes().begin(), info->sizes().end());
    inputs.tensors.push_back(executorch::extension::from_blob(memory, sizes, info->scalar_type(),
                                                              executorch::runtime::etensor::DeviceType::CUDA));
  }
  inputs.values.assign(inputs.tensors.begin(), inputs.tensors.end());
  return inputs;
}

void delegate(const char* path, bool graphs, const std::string& name, std::map<std::string, double>& times) {
  executorch::runtime::BackendOptions<1> options;
  require(options.set_option("use_cuda_graphs", graphs) == Error::Ok, "setting an option");
  executorch::runtime::LoadBackendOptionsMap by_backend;
  require(by_backend.set_options("TensorRTBackend", options.view()) == Error::Ok, "setting options");
  Module module(path, Module::LoadMode::Mmap);
  require(module.load(by_backend) == Error::Ok, "loading the program");
  auto inputs = device_inputs(module);
  const auto call = [&] { require(module.execute("forward", inputs.values).ok(), "executing"); };
  times[name] = median_us(call);
  auto stream = Stream::create();
  const CallerStreamGuard guard(stream->view().get());
  times[name + "_caller_stream"] = median_us([&] {
    call();
    cudaStreamSynchronize(stream->view().get());
  });
}

void primitives(std::map<std::string, double>& times) {
  constexpr int kRepeats = 1000;
  const auto each = [&](const char* name, const std::function<void()>& work) {
    times[name] = median_us([&] { for (int i = 0; i < kRepeats; ++i) work(); }, 50) / kRepeats;
  };
  void* device = nullptr;
  void* pinned = nullptr;
  std::vector<char> pageable(4096);
  require(cudaMalloc(&device, 4096) == cudaSuccess && cudaMallocHost(&pinned, 4096) == cudaSuccess, "cudaMalloc");
  cudaPointerAttributes attributes{};
  each("pointer_attributes_device", [&] { cudaPointerGetAttributes(&attributes, device); });
  each("pointer_attributes_pinned", [&] { cudaPointerGetAttributes(&attributes, pinned); });
  each("pointer_attributes_pageable", [&] { cudaPointerGetAttributes(&attributes, pageable.data()); });
  int current = 0;
  each("get_device", [&] { cudaGetDevice(&current); });
  auto stream = Stream::create();
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  each("event_record", [&] { cudaEventRecord(event, stream->view().get()); });
  each("stream_synchronize_idle", [&] { cudaStreamSynchronize(stream->view().get()); });
  each("per_thread_synchronize_idle", [&] { cudaStreamSynchronize(cudaStreamPerThread); });
  each("green_context_of", [&] { green_context_of(stream->view()); });
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 3, "usage: call_overhead MODEL.pte ENGINE;");
  std::map<std::string, double> times;
  primitives(times);
  bare_engine(argv[2], times);
  delegate(argv[1], false, "plain", times);
  delegate(argv[1], true, "replay", times);
  std::printf("{");
  const char* separator = "";
  for (const auto& [name, time] : times) {
    std::printf("%s\"%s\": %.3f", separator, name.c_str(), time);
    separator = ", ";
  }
  std::printf("}\n");
}
