#include "engine/bare_engines.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "blob/in_quotes.h"
#include "cuda/copy.h"
#include "cuda/device_scope.h"
#include "log/log.h"
#include "tensorrt/diagnostics.h"

namespace executorch::backends::tensorrt {

namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

size_t element_count(const abi::Dims& shape) {
  size_t count = 1;
  for (int i = 0; i < shape.nb_dims; ++i) {
    count *= static_cast<size_t>(shape.d[i]);
  }
  return count;
}

// A GPU draws less power for zeros and then runs faster than with a user's data. The numbers need not be
// good, only unlike.
template <class T>
void fill_with_numbers(std::vector<uint8_t>& bytes) {
  uint32_t state = 1;
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    state = state * 1664525U + 1013904223U;
    const T value(static_cast<float>(state >> 8) / static_cast<float>(1U << 23) - 1.0F);
    std::memcpy(&bytes[at], &value, sizeof(T));
  }
}

// Integers may be indices, for which only zero is right in every table.
std::vector<uint8_t> input_bytes(ScalarType type, size_t size_bytes) {
  std::vector<uint8_t> bytes(size_bytes, 0);
  if (type == ScalarType::Float) {
    fill_with_numbers<float>(bytes);
  } else if (type == ScalarType::Half) {
    fill_with_numbers<executorch::aten::Half>(bytes);
  } else if (type == ScalarType::BFloat16) {
    fill_with_numbers<executorch::aten::BFloat16>(bytes);
  }
  return bytes;
}

Error refused(const std::string& label, const char* what, const std::string& tensor) {
  const std::string reason = take_reason();
  DELEGATE_LOG(Error, "%s without the delegate: TensorRT refused %s%s. TensorRT says: %s.", label.c_str(),
               what, tensor.empty() ? "" : in_quotes(tensor).c_str(),
               reason.empty() ? "nothing" : reason.c_str());
  return Error::Internal;
}

/// What each of the wanted engines did last; nothing for numbers that no engine has.
std::map<size_t, LoadedEngine::LastCall> last_calls(Span<const size_t> numbers) {
  std::map<size_t, LoadedEngine::LastCall> calls;
  size_t number = 0;
  LoadedEngine::visit_all([&](LoadedEngine& engine) {
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
      calls.emplace(number, engine.last_call());
    }
    ++number;
  });
  return calls;
}

/// Refuses what cannot be compared; gives the GPU of all of them.
Result<int> common_device(Span<const size_t> numbers, const std::map<size_t, LoadedEngine::LastCall>& calls) {
  std::optional<int> device;
  for (const size_t number : numbers) {
    const auto call = calls.find(number);
    if (call == calls.end()) {
      DELEGATE_LOG(Error,
                   "Engine %zu is not loaded; engines count from 0 in the order of loading. Load the program "
                   "first.",
                   number);
      return Error::InvalidArgument;
    }
    if (!call->second.has_run) {
      DELEGATE_LOG(Error,
                   "%s was not called yet, so the shapes to run its engine with are not known. Call it once.",
                   call->second.label.c_str());
      return Error::InvalidState;
    }
    if (device.has_value() && *device != call->second.device) {
      DELEGATE_LOG(Error,
                   "The engines lie on GPU %d and GPU %d, but only engines of one GPU can be run in a row.",
                   *device, call->second.device);
      return Error::InvalidArgument;
    }
    device = call->second.device;
  }
  if (!device.has_value()) {
    DELEGATE_LOG(Error, "No engine was named to run without the delegate. Name at least one.");
    return Error::InvalidArgument;
  }
  return *device;
}

}  // namespace

Result<std::unique_ptr<BareEngines>> BareEngines::of(Span<const size_t> numbers) {
  const auto calls = last_calls(numbers);
  auto device = common_device(numbers, calls);
  ET_CHECK_OK_OR_RETURN_ERROR(device.error());
  const DeviceScope scope(*device);
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  auto stream = Stream::create();
  ET_CHECK_OK_OR_RETURN_ERROR(stream.error());
  std::unique_ptr<BareEngines> engines(new BareEngines(*device, std::move(*stream)));
  for (const auto& [number, call] : calls) {
    ET_CHECK_OK_OR_RETURN_ERROR(engines->add(call));
  }
  for (const size_t number : numbers) {
    engines->order_.push_back(static_cast<size_t>(std::distance(calls.begin(), calls.find(number))));
  }
  // TensorRT prepares what depends on shapes in the first run, which cannot be captured.
  ET_CHECK_OK_OR_RETURN_ERROR(engines->total(Launch::kEnqueue, 1).error());
  ET_CHECK_OK_OR_RETURN_ERROR(engines->capture());
  return engines;
}

BareEngines::~BareEngines() {
  const DeviceScope scope(device_);
  static_cast<void>(stream_.view().synchronize());  // buffers go next; a failure is in the log
  graphs_.clear();
  twins_.clear();
}

Error BareEngines::add(const LoadedEngine::LastCall& call) {
  auto context = call.engine->create_context(abi::AllocationStrategy::kStatic, call.label);
  ET_CHECK_OK_OR_RETURN_ERROR(context.error());
  twins_.push_back({call.label, call.engine, std::move(*context), {}});
  return bind(twins_.back(), call);
}

Error BareEngines::bind(Twin& twin, const LoadedEngine::LastCall& call) {
  constexpr size_t kSmallestBlock = 256;  // an empty tensor needs an address too
  take_reason();
  for (const auto& [binding, shape] : call.inputs) {
    if (!twin.context.set_input_shape(binding.name.c_str(), shape)) {
      return refused(twin.label, "the shape of ", binding.name);
    }
  }
  for (const auto* tensors : {&call.inputs, &call.outputs}) {
    for (const auto& [binding, shape] : *tensors) {
      DeviceBuffer buffer;
      void* address = nullptr;
      if (binding.alias_of == Binding::kNoAlias) {
        const size_t size_bytes = element_count(shape) * executorch::runtime::elementSize(binding.dtype);
        ET_CHECK_OK_OR_RETURN_ERROR(buffer.reserve(std::max(size_bytes, kSmallestBlock)));
        const std::vector<uint8_t> bytes = input_bytes(binding.dtype, size_bytes);
        ET_CHECK_OK_OR_RETURN_ERROR(copy_async(buffer.data(), bytes.data(), size_bytes, stream_.view()));
        ET_CHECK_OK_OR_RETURN_ERROR(stream_.view().synchronize());
        address = buffer.data();
        twin.buffers.push_back(std::move(buffer));
      } else {
        address = twin.buffers[static_cast<size_t>(binding.alias_of)].data();
      }
      if (!twin.context.set_tensor_address(binding.name.c_str(), address)) {
        return refused(twin.label, "the address of ", binding.name);
      }
    }
  }
  return Error::Ok;
}

Error BareEngines::capture() {
  for (Twin& twin : twins_) {
    const char* why = "";
    auto graph =
        Graph::capture(stream_.view(), [&] { return twin.context.enqueue(stream_.view().get()); }, why);
    if (!graph.ok()) {
      no_graphs_because_ = why;
      take_reason();
      graphs_.clear();
      return Error::Ok;
    }
    graphs_.push_back(std::move(*graph));
  }
  return total(Launch::kGraph, 1).error();
}

Error BareEngines::check_launch(Launch launch) const {
  if (launch == Launch::kGraph && graphs_.empty()) {
    DELEGATE_LOG(Error, "The engines cannot be run as CUDA graphs, because capturing them failed: %s.",
                 no_graphs_because_.c_str());
    return Error::NotSupported;
  }
  return Error::Ok;
}

Error BareEngines::queue(Launch launch) {
  for (const size_t index : order_) {
    if (launch == Launch::kGraph) {
      ET_CHECK_OK_OR_RETURN_ERROR(graphs_[index].launch(stream_.view()));
    } else if (!twins_[index].context.enqueue(stream_.view().get())) {
      return refused(twins_[index].label, "to run the engine", "");
    }
  }
  return Error::Ok;
}

Error BareEngines::latencies(Launch launch, Span<double> microseconds) {
  ET_CHECK_OK_OR_RETURN_ERROR(check_launch(launch));
  const DeviceScope scope(device_);
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  for (double& time : microseconds) {
    const auto start = Clock::now();
    ET_CHECK_OK_OR_RETURN_ERROR(queue(launch));
    ET_CHECK_OK_OR_RETURN_ERROR(stream_.view().synchronize());
    time = microseconds_since(start);
  }
  return Error::Ok;
}

Result<double> BareEngines::total(Launch launch, size_t calls) {
  ET_CHECK_OK_OR_RETURN_ERROR(check_launch(launch));
  const DeviceScope scope(device_);
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  const auto start = Clock::now();
  for (size_t call = 0; call < calls; ++call) {
    ET_CHECK_OK_OR_RETURN_ERROR(queue(launch));
  }
  ET_CHECK_OK_OR_RETURN_ERROR(stream_.view().synchronize());
  return microseconds_since(start);
}

}  // namespace executorch::backends::tensorrt
