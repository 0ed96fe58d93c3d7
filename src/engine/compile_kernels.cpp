#include "engine/compile_kernels.h"

#include "cuda/device_scope.h"
#include "engine/shared_engine.h"
#include "engine/target_device.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

Result<CompiledKernels> compile_kernels(Bytes bytes, const std::string& label) {
  auto blob = parse_blob_for_present_gpu(bytes, label);
  ET_CHECK_OK_OR_RETURN_ERROR(blob.error());
  const int device = blob->metadata.device_id;
  const DeviceScope scope(device);
  ET_CHECK_OK_OR_RETURN_ERROR(scope.error());
  const SharedEngine::Key key{engine_digest(*blob), device, std::nullopt, true};
  auto engine = SharedEngine::get(key, *blob, label);
  ET_CHECK_OK_OR_RETURN_ERROR(engine.error());
  if (!(*engine)->kernel_key().has_value()) {
    DELEGATE_LOG(Error, "%s is one of TensorRT, which holds its kernels already; only TensorRT-RTX compiles.",
                 label.c_str());
    return Error::NotSupported;
  }
  auto context = (*engine)->create_context(abi::AllocationStrategy::kStatic, label);
  ET_CHECK_OK_OR_RETURN_ERROR(context.error());
  auto sealed = (*engine)->sealed_kernels(label);
  ET_CHECK_OK_OR_RETURN_ERROR(sealed.error());
  return CompiledKernels{(*engine)->kernel_key()->text(), std::move(*sealed)};
}

}  // namespace executorch::backends::tensorrt
