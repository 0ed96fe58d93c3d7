// How a call's work gets onto the stream: kernel by kernel, as a capture, or as a replay.

#include "blob/in_quotes.h"
#include "cuda/device_info.h"
#include "cuda/graph.h"
#include "cuda/green_context.h"
#include "engine/engine.h"
#include "log/log.h"
#include "tensorrt/diagnostics.h"

namespace executorch::backends::tensorrt {

Error LoadedEngine::launch(const CallStream& stream) {
  stats_.calls.add(1);
  if (scratch_pool_ == nullptr && !replay_.has_value()) {
    return enqueue(stream.view, nullptr);
  }
  if (stream.is_capturing) {
    return enqueue_into_capture(stream.view);
  }
  if (scratch_pool_ == nullptr) {
    return launch_by_key(stream.view, nullptr);
  }
  auto scratch = scratch_pool_->claim(shared_->scratch_bytes(), stream.view);
  ET_CHECK_OK_OR_RETURN_ERROR(scratch.error());
  ET_CHECK_OK_OR_RETURN_ERROR(replay_.has_value() ? launch_by_key(stream.view, &*scratch)
                                                  : enqueue(stream.view, &*scratch));
  return scratch->release();
}

// The caller's graph may run at any time, and with it this engine: in scratch that others use meanwhile it
// would be wrong.
Error LoadedEngine::enqueue_into_capture(StreamView stream) {
  if (scratch_pool_ != nullptr) {
    DELEGATE_LOG(Error,
                 "%s: the caller captures its stream, but this engine takes turns in the shared scratch, "
                 "which a graph of the "
                 "caller's cannot. Load it with use_shared_activation_scratch off, or do not capture.",
                 label_.c_str());
    return Error::NotSupported;
  }
  stats_.add_fallback("the caller captures its stream");
  return enqueue(stream, nullptr);
}

Error LoadedEngine::launch_by_key(StreamView stream, const ScratchPool::Lease* scratch) {
  build_key(stream, scratch);
  switch (replay_->next(key_)) {
    case Replay::Step::kReplay:
      stats_.replayed.add(1);
      return replay_->graph().launch(stream);
    case Replay::Step::kCapture:
      return capture(stream, scratch);
    case Replay::Step::kPlain:
      break;
  }
  return enqueue(stream, scratch);
}

void LoadedEngine::build_key(StreamView stream, const ScratchPool::Lease* scratch) {
  key_.clear();
  key_.push_back(green_context_of(stream));
  key_.push_back(scratch == nullptr ? 0 : reinterpret_cast<uint64_t>(scratch->data()));
  for (const Port& input : inputs_) {
    key_.push_back(reinterpret_cast<uint64_t>(input.address));
    if (input.binding.is_dynamic()) {
      key_.insert(key_.end(), input.shape.d, input.shape.d + input.shape.nb_dims);
    }
  }
  for (const Port& output : outputs_) {
    key_.push_back(reinterpret_cast<uint64_t>(output.address));
  }
}

Error LoadedEngine::enqueue(StreamView stream, const ScratchPool::Lease* scratch) {
  const SharedContext::Turn context = take_context();
  ET_CHECK_OK_OR_RETURN_ERROR(update_context(context, stream, scratch));
  take_reason();
  if (!context->enqueue(stream.get())) {
    return refused("to run the engine", "");
  }
  stats_.plain.add(1);
  return Error::Ok;
}

Error LoadedEngine::capture(StreamView stream, const ScratchPool::Lease* scratch) {
  std::optional<SharedContext::Turn> context = take_context();
  ET_CHECK_OK_OR_RETURN_ERROR(update_context(*context, stream, scratch));
  auto source = capture_stream(stream);
  ET_CHECK_OK_OR_RETURN_ERROR(source.error());
  take_reason();
  const char* why = "";
  const size_t free_before = free_device_bytes();
  auto graph = Graph::capture(*source, [&] { return (*context)->enqueue(source->get()); }, why);
  context.reset();
  if (graph.ok()) {
    stats_.captures.add(1);
    stats_.replayed.add(1);
    const size_t free_after = free_device_bytes();
    const size_t taken = free_before > free_after ? free_before - free_after : 0;
    return replay_->keep(key_, std::move(*graph), taken).launch(stream);
  }
  replay_->give_up(key_);
  if (stats_.add_fallback(why)) {
    DELEGATE_LOG(Info, "%s: no CUDA graph for this call, which runs plainly: %s. %s", label_.c_str(), why,
                 take_reason().c_str());
  }
  return enqueue(stream, scratch);
}

// A stream that the legacy default stream waits for must not be captured: work that another thread gives to
// that one meanwhile would fail. So a stream of our own is captured, which waits for nothing, except that a
// graph keeps to a green context's part of the GPU only when it was captured there, and those streams wait
// for nothing either.
Result<StreamView> LoadedEngine::capture_stream(StreamView stream) {
  if (green_context_of(stream) != 0) {
    return stream;
  }
  if (!capture_stream_.has_value()) {
    auto created = Stream::create();
    ET_CHECK_OK_OR_RETURN_ERROR(created.error());
    capture_stream_.emplace(std::move(*created));
  }
  return capture_stream_->view();
}

// What the context was told is gone when another load had a turn.
SharedContext::Turn LoadedEngine::take_context() {
  SharedContext::Turn turn = context_->take(this);
  if (turn.is_after_another()) {
    context_scratch_ = nullptr;
    for (auto* ports : {&inputs_, &outputs_}) {
      for (Port& port : *ports) {
        port.context_shape.nb_dims = -1;
        port.context_address = nullptr;
      }
    }
  }
  return turn;
}

// A replay does not touch the context, so it is told what changed since it was last used, not since the last
// call.
Error LoadedEngine::update_context(const SharedContext::Turn& context, StreamView stream,
                                   const ScratchPool::Lease* scratch) {
  ET_CHECK_OK_OR_RETURN_ERROR(context.follow(stream, label_));
  ET_CHECK_OK_OR_RETURN_ERROR(set_context_shapes(*context));
  ET_CHECK_OK_OR_RETURN_ERROR(set_context_addresses(*context));
  if (scratch != nullptr && scratch->data() != context_scratch_) {
    take_reason();
    context->set_device_memory(scratch->data(), scratch->size_bytes());
    const std::string reason = take_reason();  // the only sign of a refusal
    if (!reason.empty()) {
      DELEGATE_LOG(Error, "%s: TensorRT refused the shared scratch of %zu bytes. TensorRT says: %s.",
                   label_.c_str(), scratch->size_bytes(), reason.c_str());
      return Error::Internal;
    }
    context_scratch_ = scratch->data();
  }
  return Error::Ok;
}

Error LoadedEngine::set_context_shapes(Context& context) {
  for (Port& port : inputs_) {
    if (port.shape == port.context_shape) {
      continue;
    }
    take_reason();
    port.context_shape.nb_dims = -1;
    if (!context.set_input_shape(port.binding.name.c_str(), port.shape)) {
      return refused("the shape", port.binding.name);
    }
    port.context_shape = port.shape;
  }
  return Error::Ok;
}

Error LoadedEngine::set_context_addresses(Context& context) {
  for (auto* ports : {&inputs_, &outputs_}) {
    for (Port& port : *ports) {
      if (port.address == port.context_address) {
        continue;
      }
      take_reason();
      port.context_address = nullptr;
      if (!context.set_tensor_address(port.binding.name.c_str(), port.address)) {
        return refused("the address", port.binding.name);
      }
      port.context_address = port.address;
    }
  }
  return Error::Ok;
}

Error LoadedEngine::refused(const char* what, const std::string& tensor) const {
  const std::string reason = take_reason();
  DELEGATE_LOG(Error, "%s: TensorRT refused %s%s%s. TensorRT says: %s.", label_.c_str(), what,
               tensor.empty() ? "" : " of ", tensor.empty() ? "" : in_quotes(tensor).c_str(),
               reason.empty() ? "nothing" : reason.c_str());
  return Error::Internal;
}

}  // namespace executorch::backends::tensorrt
