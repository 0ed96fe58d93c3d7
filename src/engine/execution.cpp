// One call of a loaded engine: check, bind, queue, deliver, complete.

#include <algorithm>
#include <cstring>

#include "blob/in_quotes.h"
#include "cuda/copy.h"
#include "cuda/device_scope.h"
#include "cuda/pending_work.h"
#include "cuda/pointer.h"
#include "engine/engine.h"
#include "log/log.h"
#include "tensorrt/diagnostics.h"

namespace executorch::backends::tensorrt {

namespace {

// What TensorRT's headers ask of an address that is bound.
constexpr uintptr_t kAddressAlignment = 256;

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % kAddressAlignment == 0; }

}  // namespace

Error LoadedEngine::run(Span<Tensor* const> tensors, StreamView stream, Completion completion) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const DeviceScope scope(device_);
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  ET_CHECK_OK_OR_RETURN_ERROR(assign(tensors));
  if (!is_bound()) {
    ET_CHECK_OK_OR_RETURN_ERROR(bind());
  }
  auto capturing = stream.is_capturing();
  ET_CHECK_OK_OR_RETURN_ERROR(capturing.error());
  const CallStream call{stream, *capturing};
  ET_CHECK_OK_OR_RETURN_ERROR(start_after_last_call(call));
  PendingWork pending(stream);
  ET_CHECK_OK_OR_RETURN_ERROR(queue(call));
  ET_CHECK_OK_OR_RETURN_ERROR(finish(call, completion));
  pending.release();
  return Error::Ok;
}

Error LoadedEngine::assign(Span<Tensor* const> tensors) {
  const size_t all = inputs_.size() + outputs_.size();
  const size_t fewest = inputs_.size() + unaliased_output_count_;
  if (tensors.size() != all && tensors.size() != fewest) {
    DELEGATE_LOG(Error,
                 "%s: the program gives the engine %zu tensors, but it has %zu inputs and %zu outputs (%zu "
                 "without those that share an "
                 "input's memory). Export the model again.",
                 label_.c_str(), tensors.size(), inputs_.size(), outputs_.size(), unaliased_output_count_);
    return Error::InvalidArgument;
  }
  size_t next = 0;
  for (Port& input : inputs_) {
    input.tensor = tensors[next++];
  }
  for (Port& output : outputs_) {
    const bool left_out = tensors.size() == fewest && output.binding.alias_of != Binding::kNoAlias;
    output.tensor = left_out ? nullptr : tensors[next++];
  }
  waits_for_host_ = false;
  return Error::Ok;
}

// One execution context is not to be used by two streams at once. A stream that the caller captures cannot
// wait for work outside of the capture, so the host does.
Error LoadedEngine::start_after_last_call(const CallStream& stream) {
  if (!in_flight_) {
    return Error::Ok;
  }
  auto id = stream.view.id();
  ET_CHECK_OK_OR_RETURN_ERROR(id.error());
  if (*id == last_stream_) {
    return Error::Ok;
  }
  return stream.is_capturing ? wait_for_last_call() : event_.make_wait(stream.view);
}

// A loop makes calls with the same tensors, and between two replays every tenth of a microsecond counts.
bool LoadedEngine::is_bound() const {
  const auto as_before = [](const Port& port) { return port.bound.is(port.tensor); };
  return can_stay_bound_ && std::all_of(inputs_.begin(), inputs_.end(), as_before) &&
         std::all_of(outputs_.begin(), outputs_.end(), as_before);
}

// Host memory is left out: it is copied, and waited for.
bool LoadedEngine::remember_tensors() {
  const auto remember = [](Port& port) {
    const bool in_place = port.tensor == nullptr || (port.access == Access::kInPlace && !port.is_host_memory);
    return in_place && port.bound.remember(port.tensor);
  };
  return std::all_of(inputs_.begin(), inputs_.end(), remember) &&
         std::all_of(outputs_.begin(), outputs_.end(), remember);
}

// Everything that can be refused is refused here, before anything is queued.
Error LoadedEngine::bind() {
  can_stay_bound_ = false;
  for (Port& input : inputs_) {
    ET_CHECK_OK_OR_RETURN_ERROR(bind_input(input));
  }
  ET_CHECK_OK_OR_RETURN_ERROR(find_output_shapes());
  for (Port& output : outputs_) {
    ET_CHECK_OK_OR_RETURN_ERROR(bind_output(output));
  }
  can_stay_bound_ = remember_tensors();
  return Error::Ok;
}

Error LoadedEngine::queue(const CallStream& stream) {
  for (Port& input : inputs_) {
    ET_CHECK_OK_OR_RETURN_ERROR(stage_input(input, stream.view));
  }
  ET_CHECK_OK_OR_RETURN_ERROR(launch(stream));
  for (Port& output : outputs_) {
    ET_CHECK_OK_OR_RETURN_ERROR(queue_delivery(output, stream.view));
  }
  return Error::Ok;
}

Error LoadedEngine::bind_input(Port& port) {
  ET_CHECK_OK_OR_RETURN_ERROR(check_input(port.binding, *port.tensor, label_));
  port.shape = shape_of(*port.tensor);
  if (port.tensor->numel() == 0) {
    port.address = placeholder_.data();
    return Error::Ok;
  }
  ET_CHECK_OK_OR_RETURN_ERROR(find_access(port, "input"));
  if (port.access == Access::kInPlace) {
    port.address = port.tensor->mutable_data_ptr();
    return Error::Ok;
  }
  if (port.binding.is_aliased) {
    DELEGATE_LOG(Error,
                 "%s: the engine updates input %s in place, so it must be memory of GPU %d, aligned to %zu "
                 "bytes; the caller's is not. "
                 "Keep this tensor on the GPU.",
                 label_.c_str(), in_quotes(port.binding.name).c_str(), device_,
                 static_cast<size_t>(kAddressAlignment));
    return Error::InvalidArgument;
  }
  ET_CHECK_OK_OR_RETURN_ERROR(reserve_staging(port));
  port.address = port.device_staging.data();
  return Error::Ok;
}

Error LoadedEngine::stage_input(Port& port, StreamView stream) {
  if (port.tensor->numel() == 0 || port.access == Access::kInPlace) {
    return Error::Ok;
  }
  const size_t size_bytes = port.tensor->nbytes();
  const void* source = port.tensor->const_data_ptr();
  if (port.access == Access::kPageable) {
    std::memcpy(port.pinned_staging.data(), source, size_bytes);
    source = port.pinned_staging.data();
  }
  ET_CHECK_OK_OR_RETURN_ERROR(copy_async(port.address, source, size_bytes, stream));
  stats_.staged_inputs.add(1);
  stats_.copied_bytes.add(size_bytes);
  return Error::Ok;
}

Error LoadedEngine::find_output_shapes() {
  input_shapes_.clear();
  for (const Port& input : inputs_) {
    input_shapes_.push_back(input.shape);
  }
  const std::vector<abi::Dims>* shapes = shape_plans_.find(input_shapes_);
  if (shapes == nullptr) {
    auto inferred = infer_output_shapes();
    ET_CHECK_OK_OR_RETURN_ERROR(inferred.error());
    shapes = &shape_plans_.add(input_shapes_, std::move(*inferred));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].shape = (*shapes)[i];
  }
  return Error::Ok;
}

Result<std::vector<abi::Dims>> LoadedEngine::infer_output_shapes() {
  const SharedContext::Turn context = take_context();
  ET_CHECK_OK_OR_RETURN_ERROR(set_context_shapes(*context));
  take_reason();
  if (context->infer_shapes() != 0) {
    return refused("to infer the output shapes from these inputs", "");
  }
  std::vector<abi::Dims> shapes;
  for (const Port& output : outputs_) {
    const abi::Dims shape = context->shape(output.binding.name.c_str());
    if (shape.nb_dims < 0 ||
        std::any_of(shape.d, shape.d + shape.nb_dims, [](int64_t size) { return size < 0; })) {
      DELEGATE_LOG(Error,
                   "%s: the shape of output %s, %s, depends on data, which is not supported. Keep that "
                   "operator outside the engine.",
                   label_.c_str(), in_quotes(output.binding.name).c_str(), abi::to_string(shape).c_str());
      return Error::NotSupported;
    }
    shapes.push_back(shape);
  }
  return shapes;
}

Error LoadedEngine::bind_output(Port& port) {
  if (port.tensor != nullptr) {
    ET_CHECK_OK_OR_RETURN_ERROR(prepare_output(port.binding, port.shape, *port.tensor, label_));
    if (port.tensor->numel() > 0) {
      ET_CHECK_OK_OR_RETURN_ERROR(find_access(port, "output"));
      waits_for_host_ |= port.is_host_memory;
    }
  }
  if (port.binding.alias_of != Binding::kNoAlias) {
    port.address = inputs_[static_cast<size_t>(port.binding.alias_of)].address;
    return Error::Ok;
  }
  if (port.tensor->numel() == 0) {
    port.address = placeholder_.data();
    return Error::Ok;
  }
  if (port.access == Access::kInPlace) {
    port.address = port.tensor->mutable_data_ptr();
    return Error::Ok;
  }
  ET_CHECK_OK_OR_RETURN_ERROR(reserve_staging(port));
  port.address = port.device_staging.data();
  stats_.staged_outputs.add(1);
  return Error::Ok;
}

// Nothing to deliver where the engine wrote into the caller's memory, which is the case whenever the
// addresses agree.
bool LoadedEngine::needs_delivery(const Port& port) {
  return port.tensor != nullptr && port.tensor->numel() > 0 && port.tensor->const_data_ptr() != port.address;
}

Error LoadedEngine::queue_delivery(Port& port, StreamView stream) {
  if (!needs_delivery(port)) {
    return Error::Ok;
  }
  void* target = port.tensor->mutable_data_ptr();
  if (port.access == Access::kPageable) {
    ET_CHECK_OK_OR_RETURN_ERROR(port.pinned_staging.reserve(port.tensor->nbytes()));
    target = port.pinned_staging.data();
  }
  stats_.copied_bytes.add(port.tensor->nbytes());
  return copy_async(target, port.address, port.tensor->nbytes(), stream);
}

// Work that the caller captures runs when the caller's graph does: nothing of this call is in flight, and an
// event that is recorded in a capture cannot be waited for outside of it.
Error LoadedEngine::mark_end(const CallStream& stream) {
  if (stream.is_capturing) {
    return Error::Ok;
  }
  ET_CHECK_OK_OR_RETURN_ERROR(event_.record(stream.view));
  auto id = stream.view.id();
  ET_CHECK_OK_OR_RETURN_ERROR(id.error());
  last_stream_ = *id;
  in_flight_ = true;
  return Error::Ok;
}

Error LoadedEngine::finish(const CallStream& stream, Completion completion) {
  if (completion == Completion::kQueued && !waits_for_host_) {
    return mark_end(stream);
  }
  stats_.host_waits.add(1);
  ET_CHECK_OK_OR_RETURN_ERROR(stream.view.synchronize());
  in_flight_ = false;
  for (const Port& output : outputs_) {
    if (needs_delivery(output) && output.access == Access::kPageable) {
      std::memcpy(output.tensor->mutable_data_ptr(), output.pinned_staging.data(), output.tensor->nbytes());
    }
  }
  return Error::Ok;
}

// Buffers of this object may still be in use by the last call, when that returned early.
Error LoadedEngine::reserve_staging(Port& port) {
  ET_CHECK_OK_OR_RETURN_ERROR(wait_for_last_call());
  const size_t size_bytes = port.tensor->nbytes();
  ET_CHECK_OK_OR_RETURN_ERROR(port.device_staging.reserve(size_bytes));
  return port.access == Access::kPageable ? port.pinned_staging.reserve(size_bytes) : Error::Ok;
}

Error LoadedEngine::wait_for_last_call() {
  if (!in_flight_) {
    return Error::Ok;
  }
  in_flight_ = false;
  stats_.host_waits.add(1);
  return event_.synchronize();
}

Error LoadedEngine::find_access(Port& port, const char* direction) const {
  const void* data = port.tensor->const_data_ptr();
  auto info = describe_pointer(data);
  ET_CHECK_OK_OR_RETURN_ERROR(info.error());
  if (info->kind == MemoryKind::kDevice && info->device != device_) {
    DELEGATE_LOG(Error,
                 "%s: %s %s is in the memory of GPU %d, but the engine runs on GPU %d. Move the tensor, or "
                 "export the model with "
                 "device=\"cuda:%d\".",
                 label_.c_str(), direction, in_quotes(port.binding.name).c_str(), info->device, device_,
                 info->device);
    return Error::InvalidArgument;
  }
  port.is_host_memory = info->kind == MemoryKind::kPageable || info->kind == MemoryKind::kPinned;
  // An integrated GPU reads and writes page-locked memory as fast as any other: there is only one memory.
  const bool is_shared = info->kind == MemoryKind::kPinned && is_integrated_ && info->is_mapped;
  port.access = info->kind == MemoryKind::kPageable               ? Access::kPageable
                : info->kind == MemoryKind::kPinned && !is_shared ? Access::kPinned
                : is_aligned(data)                                ? Access::kInPlace
                                                                  : Access::kUnaligned;
  return Error::Ok;
}

}  // namespace executorch::backends::tensorrt
