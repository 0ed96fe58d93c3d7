#include "engine/engine_opening.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/device_info.h"
#include "log/log.h"
#include "tensorrt/diagnostics.h"
#include "tensorrt/library_search.h"

namespace executorch::backends::tensorrt {

namespace {

Result<Product> product_of(const Blob& blob, const std::string& label) {
  const EngineFlavor flavor = engine_flavor(blob.engine);
  const EngineFlavor recorded = blob.metadata.tensorrt_flavor;
  if (flavor == EngineFlavor::kUnknown || (recorded != EngineFlavor::kUnknown && recorded != flavor)) {
    DELEGATE_LOG(Error,
                 "%s: the bytes of the engine do not begin as an engine of %s does; the file is damaged. "
                 "Export the model again.",
                 label.c_str(),
                 recorded == EngineFlavor::kTensorRTRTX ? "TensorRT-RTX"
                 : recorded == EngineFlavor::kTensorRT  ? "TensorRT"
                                                        : "TensorRT or TensorRT-RTX");
    return Error::InvalidProgram;
  }
  return flavor == EngineFlavor::kTensorRTRTX ? Product::kTensorRTRTX : Product::kTensorRT;
}

/// "9.0 (NVIDIA H200)"; the sentence must not fail because of what it wants to say.
std::string describe_gpu(int device) {
  auto info = device_info(device);
  return info.ok() ? info->compute_capability + " (" + info->name + ")" : "unknown";
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

/// Whether the recorded version differs from the library's in its major or minor number.
bool is_other_version(const std::string& recorded, const LibraryVersion& version) {
  const std::string mine = std::to_string(version.major) + "." + std::to_string(version.minor) + ".";
  return !recorded.empty() && recorded.compare(0, mine.size(), mine) != 0;
}

Error refuse_engine(const Blob& blob, const Library& library, int device, const std::string& reason,
                    const std::string& label) {
  const Metadata& made = blob.metadata;
  const bool other_version = is_other_version(made.tensorrt_version, library.version());
  DELEGATE_LOG(Error,
               "%s: %s cannot load this engine, which was built by version %s for compute capability %s; "
               "this GPU has %s. TensorRT says: %s. %s",
               label.c_str(), library.description().c_str(),
               made.tensorrt_version.empty() ? "unknown" : made.tensorrt_version.c_str(),
               made.compute_capabilities.empty() ? "any" : join(made.compute_capabilities).c_str(),
               describe_gpu(device).c_str(), reason.empty() ? "nothing" : reason.c_str(),
               other_version ? "Install the version that built it, or export the model again with this one."
                             : "Export the model again for this GPU, or check that the file is whole.");
  // With a digest the bytes are known to be whole, so what is wrong is the pair of engine and machine.
  return other_version || !made.engine_sha256.empty() ? Error::DelegateInvalidCompatibility
                                                      : Error::InvalidProgram;
}

}  // namespace

Result<OpenedEngine> open_engine(const Blob& blob, int device, const std::string& label) {
  auto product = product_of(blob, label);
  ET_CHECK_OK_OR_RETURN_ERROR(product.error());
  auto library = find_library(*product);
  ET_CHECK_OK_OR_RETURN_ERROR(library.error());
  auto runtime = Runtime::of(**library);
  ET_CHECK_OK_OR_RETURN_ERROR(runtime.error());
  std::string reason;
  auto engine = (*runtime)->deserialize(blob.engine, reason);
  if (engine.error() == Error::InvalidProgram) {
    return refuse_engine(blob, **library, device, reason, label);
  }
  ET_CHECK_OK_OR_RETURN_ERROR(engine.error());
  return OpenedEngine{**runtime, std::move(*engine)};
}

Error set_weight_streaming_budget(Engine& engine, const std::optional<int64_t>& wanted,
                                  const std::string& label) {
  const int64_t streamable = engine.streamable_weights_size();
  if (streamable <= 0) {
    if (wanted.has_value()) {
      DELEGATE_LOG(
          Info,
          "%s: weight_streaming_budget has no effect, because the engine was not built for weight streaming.",
          label.c_str());
    }
    return Error::Ok;
  }
  if (wanted.has_value()) {
    const int64_t budget = std::min(*wanted, streamable);
    if (!engine.set_weight_streaming_budget(budget)) {
      DELEGATE_LOG(Error,
                   "%s: TensorRT refused a weight streaming budget of %lld bytes (streamable weights: %lld "
                   "bytes). TensorRT says: %s.",
                   label.c_str(), static_cast<long long>(budget), static_cast<long long>(streamable),
                   take_reason().c_str());
      return Error::MemoryAllocationFailed;
    }
    return Error::Ok;
  }
  if (!engine.set_weight_streaming_budget(engine.weight_streaming_automatic_budget()) &&
      !engine.set_weight_streaming_budget(0)) {
    DELEGATE_LOG(Error,
                 "%s: TensorRT could place no weights on the GPU. TensorRT says: %s. Give "
                 "weight_streaming_budget yourself.",
                 label.c_str(), take_reason().c_str());
    return Error::MemoryAllocationFailed;
  }
  return Error::Ok;
}

}  // namespace executorch::backends::tensorrt
