// call_overhead MODEL.pte ENGINE: microseconds per call of the bare engine and of the same engine through
// ExecuTorch.
//
// MODEL.pte has one method "forward" whose tensors lie on the GPU (both copies at its boundary left out) and
// whose only delegate holds ENGINE, the serialized engine alone. Prints JSON: medians in microseconds. All
// variants take turns in short blocks, so that a change of clocks or of the machine's load meets them alike.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/backend/interface.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/graph.h"
#include "cuda/green_context.h"
#include "cuda/stream.h"
#include "engine/engine.h"
#include "executorch/backends/tensorrt/caller_stream.h"
#include "tensorrt/library_search.h"
#include "tensorrt/objects.h"

using namespace executorch::backends::tensorrt;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

namespace {

constexpr int kRounds = 60;
constexpr int kWarmUp = 5;
constexpr int kCallsPerRound = 50;

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "call_overhead: %s failed\n", what);
    std::exit(1);
  }
}

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

struct Variant {
  std::string name;
  std::function<void()> call;
  std::vector<double> times;
};

void take_turns(std::vector<Variant>& variants) {
  for (int round = 0; round < kRounds; ++round) {
    for (Variant& variant : variants) {
      for (int i = 0; i < kWarmUp + kCallsPerRound; ++i) {
        const auto start = Clock::now();
        variant.call();
        if (i >= kWarmUp) {
          variant.times.push_back(microseconds_since(start));
        }
      }
    }
  }
}

std::vector<uint8_t> file_bytes(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void* zeroed(size_t size_bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, size_bytes) == cudaSuccess && cudaMemset(memory, 0, size_bytes) == cudaSuccess,
          "cudaMalloc");
  return memory;
}

/// An engine as a program of ExecuTorch.
class Program {
 public:
  Program(const char* path, bool graphs) : module_(path, Module::LoadMode::Mmap) {
    executorch::runtime::BackendOptions<1> options;
    require(options.set_option("use_cuda_graphs", graphs) == Error::Ok, "setting an option");
    executorch::runtime::LoadBackendOptionsMap by_backend;
    require(by_backend.set_options("TensorRTBackend", options.view()) == Error::Ok, "setting options");
    require(module_.load(by_backend) == Error::Ok && module_.load_method("forward") == Error::Ok, "loading");
    auto meta = module_.method_meta("forward");
    require(meta.ok(), "reading the method");
    for (size_t i = 0; i < meta->num_inputs(); ++i) {
      auto info = meta->input_tensor_meta(i);
      std::vector<executorch::aten::SizesType> sizes(info->sizes().begin(), info->sizes().end());
      inputs_.push_back(executorch::extension::from_blob(zeroed(info->nbytes()), sizes, info->scalar_type(),
                                                         executorch::runtime::etensor::DeviceType::CUDA));
    }
    values_.assign(inputs_.begin(), inputs_.end());
    auto results = module_.execute("forward", values_);
    require(results.ok(), "executing");
    for (const auto& input : inputs_) {
      addresses_.push_back(input->mutable_data_ptr());
    }
    for (const EValue& result : *results) {
      addresses_.push_back(result.toTensor().mutable_data_ptr());
    }
  }

  /// Where the inputs lie, and then the results, which lie there after every call.
  const std::vector<void*>& addresses() const { return addresses_; }

  void call() { require(module_.execute("forward", values_).ok(), "executing"); }

 private:
  Module module_;
  std::vector<TensorPtr> inputs_;
  std::vector<EValue> values_;
  std::vector<void*> addresses_;
};

/// The engine of a program with nothing around it: enqueue, or launch of a captured graph, and a wait for the
/// stream. Weights, inputs and results lie where the program has them, because a kernel's time depends on
/// where its data lie.
class BareEngine {
 public:
  /// Of the program that was loaded last.
  static BareEngine of(const Program& program) {
    LoadedEngine* loaded = nullptr;
    LoadedEngine::visit_all([&](LoadedEngine& engine) { loaded = &engine; });
    require(loaded != nullptr, "finding the program's engine");
    const LoadedEngine::LastCall call = loaded->last_call();
    auto context = call.engine->create_context(abi::AllocationStrategy::kStatic, call.label);
    require(context.ok(), "creating a context");
    auto address = program.addresses().begin();
    for (const auto* tensors : {&call.inputs, &call.outputs}) {
      for (const auto& [binding, shape] : *tensors) {
        require(tensors == &call.outputs || context->set_input_shape(binding.name.c_str(), shape), "shaping");
        require(context->set_tensor_address(binding.name.c_str(), *address++), "binding");
      }
    }
    auto stream = Stream::create();
    require(stream.ok(), "creating a stream");
    const char* why = "";
    require(context->enqueue(stream->view().get()), "enqueueing");
    auto graph = Graph::capture(stream->view(), [&] { return context->enqueue(stream->view().get()); }, why);
    require(graph.ok(), why);
    return {call.engine, std::move(*context), std::move(*stream), std::move(*graph)};
  }

  void enqueue(StreamView stream) {
    context_.enqueue(stream.get());
    cudaStreamSynchronize(stream.get());
  }
  void launch(StreamView stream) {
    static_cast<void>(graph_.launch(stream));
    cudaStreamSynchronize(stream.get());
  }
  StreamView stream() const { return stream_.view(); }

 private:
  BareEngine(std::shared_ptr<SharedEngine> engine, Context context, Stream stream, Graph graph)
      : engine_(std::move(engine)),
        context_(std::move(context)),
        stream_(std::move(stream)),
        graph_(std::move(graph)) {}

  std::shared_ptr<SharedEngine> engine_;
  Context context_;
  Stream stream_;
  Graph graph_;
};

/// What the parts of a load take in TensorRT itself, with an empty cache and with the kernels that this
/// filled it with.
void cache_steps(const char* path, std::map<std::string, double>& results) {
  auto library = find_library(Product::kTensorRTRTX);
  require(library.ok(), "finding TensorRT");
  auto runtime = Runtime::of(**library);
  require(runtime.ok(), "creating a runtime");
  const auto bytes = file_bytes(path);
  std::vector<uint8_t> kernels;
  for (const std::string state : {"cold", "warm"}) {
    auto timed = [&, start = Clock::now()](const char* step) mutable {
      results["kernel_cache_ms." + state + "." + step] = microseconds_since(start) / 1000;
      start = Clock::now();
    };
    std::string reason;
    auto engine = (*runtime)->deserialize({bytes.data(), bytes.size()}, reason);
    require(engine.ok(), "deserializing");
    timed("deserialize_engine");
    auto config = engine->create_runtime_config(**library);
    require(config.ok(), "creating a config");
    auto cache = config->create_cache();
    require(cache.ok(), "creating a cache");
    timed("create_cache");
    if (!kernels.empty()) {
      results["kernel_cache.accepted"] = cache->deserialize({kernels.data(), kernels.size()}) ? 1 : 0;
      timed("deserialize_cache");
    }
    results["kernel_cache.set"] = config->set_cache(*cache) ? 1 : 0;
    auto context = engine->create_context(*config);
    require(context.ok(), "creating a context");
    timed("create_context");
    auto serialized = cache->serialize();
    require(serialized.ok(), "serializing the cache");
    kernels.assign(serialized->bytes().begin(), serialized->bytes().end());
    timed("serialize_cache");
    results["kernel_cache.bytes"] = static_cast<double>(kernels.size());
  }
}

void primitives(std::map<std::string, double>& results) {
  constexpr int kRepeats = 1000;
  const auto each = [&](const char* name, const std::function<void()>& work) {
    std::vector<double> times;
    for (int i = 0; i < 50; ++i) {
      const auto start = Clock::now();
      for (int j = 0; j < kRepeats; ++j) {
        work();
      }
      times.push_back(microseconds_since(start) / kRepeats);
    }
    results[std::string("primitive_us.") + name] = median(std::move(times));
  };
  void* device = zeroed(4096);
  std::vector<char> pageable(4096);
  cudaPointerAttributes attributes{};
  each("pointer_attributes_device", [&] { cudaPointerGetAttributes(&attributes, device); });
  each("pointer_attributes_pageable", [&] { cudaPointerGetAttributes(&attributes, pageable.data()); });
  auto stream = Stream::create();
  require(stream.ok(), "creating a stream");
  each("stream_id", [&] { static_cast<void>(stream->view().id()); });
  each("green_context_of", [&] { green_context_of(stream->view()); });
  each("synchronize_idle", [&] { cudaStreamSynchronize(stream->view().get()); });
}

void print(const std::map<std::string, double>& results) {
  std::printf("{");
  const char* separator = "";
  for (const auto& [name, value] : results) {
    std::printf("%s\"%s\": %.3f", separator, name.c_str(), value);
    separator = ", ";
  }
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 3, "usage: call_overhead MODEL.pte ENGINE;");
  std::map<std::string, double> results;
  primitives(results);
  cache_steps(argv[2], results);
  Program plain(argv[1], false);
  BareEngine bare_of_plain = BareEngine::of(plain);
  Program replay(argv[1], true);
  BareEngine bare_of_replay = BareEngine::of(replay);
  auto stream = Stream::create();
  require(stream.ok(), "creating a stream");
  const auto on_stream = [&](Program& program) {
    const CallerStreamGuard guard(stream->view().get());
    program.call();
    cudaStreamSynchronize(stream->view().get());
  };
  std::vector<Variant> variants = {
      {"bare_enqueue", [&] { bare_of_plain.enqueue(StreamView::per_thread()); }, {}},
      {"plain", [&] { plain.call(); }, {}},
      {"bare_enqueue_own_stream", [&] { bare_of_plain.enqueue(bare_of_plain.stream()); }, {}},
      {"plain_caller_stream", [&] { on_stream(plain); }, {}},
      {"bare_graph_launch", [&] { bare_of_replay.launch(StreamView::per_thread()); }, {}},
      {"replay", [&] { replay.call(); }, {}},
      {"bare_graph_launch_own_stream", [&] { bare_of_replay.launch(bare_of_replay.stream()); }, {}},
      {"replay_caller_stream", [&] { on_stream(replay); }, {}},
  };
  take_turns(variants);
  for (Variant& variant : variants) {
    results["call_us." + variant.name] = median(std::move(variant.times));
  }
  // Each way to call is compared with the bare engine on a stream of the same kind: a stream that the legacy
  // default stream waits for, as every thread's own does, costs more for each kernel. The worse way counts.
  const auto ratio = [&](const std::string& ours, const std::string& bare_engine) {
    return std::max(
        results["call_us." + ours] / results["call_us." + bare_engine],
        results["call_us." + ours + "_caller_stream"] / results["call_us." + bare_engine + "_own_stream"]);
  };
  results["ratio.call_vs_bare_enqueue"] = ratio("plain", "bare_enqueue");
  results["ratio.replay_vs_bare_launch"] = ratio("replay", "bare_graph_launch");
  print(results);
}
