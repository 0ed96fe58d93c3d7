#include "engine/auxiliary_streams.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cuda/green_context.h"
#include "log/log.h"
#include "tensorrt/diagnostics.h"

namespace executorch::backends::tensorrt {

Error AuxiliaryStreams::follow(StreamView stream, Context& context, const std::string& label) {
  if (count_ <= 0) {
    return Error::Ok;
  }
  const uint64_t green_context = green_context_of(stream);
  return green_context == green_context_ ? Error::Ok : move_to(stream, green_context, context, label);
}

Error AuxiliaryStreams::move_to(StreamView stream, uint64_t green_context, Context& context,
                                const std::string& label) {
  std::vector<Stream> streams;
  for (int32_t i = 0; green_context != 0 && i < count_; ++i) {
    auto created = create_stream_beside(stream);
    ET_CHECK_OK_OR_RETURN_ERROR(created.error());
    streams.push_back(std::move(*created));
  }
  std::vector<void*> handles;
  std::transform(streams.begin(), streams.end(), std::back_inserter(handles),
                 [](const Stream& each) { return each.view().get(); });
  take_reason();
  context.set_auxiliary_streams({handles.data(), handles.size()});
  const std::string reason = take_reason();  // the only sign of a refusal
  if (!reason.empty()) {
    DELEGATE_LOG(Error,
                 "%s: TensorRT refused %zu auxiliary streams of the caller's green context. TensorRT says: "
                 "%s. Run on an ordinary stream.",
                 label.c_str(), handles.size(), reason.c_str());
    return Error::Internal;
  }
  streams_ = std::move(streams);
  green_context_ = green_context;
  return Error::Ok;
}

}  // namespace executorch::backends::tensorrt
