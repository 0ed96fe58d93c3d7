#include "blob.h"

#include <cstring>

#include <executorch/runtime/platform/log.h>

#include "engine_digest.h"

namespace executorch::backends::tensorrt {

using executorch::runtime::Error;
using executorch::runtime::Result;

namespace {

const char* flavor_name(EngineFlavor flavor) {
  return flavor == EngineFlavor::kTensorRTRTX ? "TensorRT-RTX" : "TensorRT";
}

Error check_digest(Bytes engine, const std::string& recorded) {
  if (recorded.empty()) {
    return Error::Ok;
  }
  const std::string found = to_hex(digest_of_engine(engine));
  ET_CHECK_OR_RETURN_ERROR(
      found == recorded, InvalidProgram,
      "The engine's SHA-256 is %.16s..., but the blob records %.16s...: the engine is damaged. "
      "Copy or export the file again.",
      found.c_str(), recorded.c_str());
  return Error::Ok;
}

Error check_flavor(Bytes engine, EngineFlavor recorded) {
  const EngineFlavor found = engine_flavor(engine);
  if (found == recorded || found == EngineFlavor::kUnknown || recorded == EngineFlavor::kUnknown) {
    return Error::Ok;
  }
  ET_LOG(Error,
         "The blob records an engine of %s, but the engine's first bytes are those of %s. Export the model "
         "again.",
         flavor_name(recorded), flavor_name(found));
  return Error::InvalidProgram;
}

}  // namespace

EngineFlavor engine_flavor(Bytes engine) {
  constexpr size_t kMagicBytes = 4;
  if (engine.size() < kMagicBytes) {
    return EngineFlavor::kUnknown;
  }
  if (std::memcmp(engine.data(), "vtrt", kMagicBytes) == 0) {
    return EngineFlavor::kTensorRTRTX;
  }
  if (std::memcmp(engine.data(), "ftrt", kMagicBytes) == 0) {
    return EngineFlavor::kTensorRT;
  }
  return EngineFlavor::kUnknown;
}

Result<Blob> parse_blob(Bytes bytes) {
  const Header header = ET_UNWRAP(parse_header(bytes));
  Blob blob;
  blob.aliased_magic = header.aliased_magic;
  blob.engine = Bytes(bytes.data() + header.engine_offset, header.engine_size);
  blob.metadata =
      ET_UNWRAP(parse_metadata(Bytes(bytes.data() + header.metadata_offset, header.metadata_size)));
  ET_CHECK_OK_OR_RETURN_ERROR(check_digest(blob.engine, blob.metadata.engine_sha256));
  ET_CHECK_OK_OR_RETURN_ERROR(check_flavor(blob.engine, blob.metadata.tensorrt_flavor));
  return blob;
}

}  // namespace executorch::backends::tensorrt
