#include "engine/target_device.h"

#include "cuda/device_info.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

using runtime::Error;
using runtime::Result;

namespace {

Error check_target_device(int device, const std::string& label) {
  auto count = device_count();
  ET_CHECK_OK_OR_RETURN_ERROR(count.error());
  if (device >= *count) {
    DELEGATE_LOG(Error,
                 "%s was exported for GPU %d, but this process sees %d GPU(s), counted from 0. "
                 "Export it with device=\"cuda:0\", or make the GPU visible through CUDA_VISIBLE_DEVICES.",
                 label.c_str(), device, *count);
    return Error::DelegateInvalidCompatibility;
  }
  return Error::Ok;
}

}  // namespace

Result<Blob> parse_blob_for_present_gpu(Bytes bytes, const std::string& label) {
  auto blob = parse_blob(bytes);
  ET_CHECK_OK_OR_RETURN_ERROR(blob.error());
  ET_CHECK_OK_OR_RETURN_ERROR(check_target_device(blob->metadata.device_id, label));
  return blob;
}

}  // namespace executorch::backends::tensorrt
