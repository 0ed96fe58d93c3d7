#include "header.h"

#include <cinttypes>
#include <cstring>

#include <executorch/runtime/platform/log.h>

namespace executorch::backends::tensorrt {

using executorch::runtime::Error;
using executorch::runtime::Result;

namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kMetadataOffsetField = 4;
constexpr size_t kMetadataSizeField = 8;
constexpr size_t kEngineOffsetField = 12;
constexpr size_t kEngineSizeField = 16;
static_assert(kEngineSizeField + sizeof(uint64_t) <= kHeaderBytes, "a field lies outside the header");

// The file is little endian whatever the machine is.
template <typename T>
T read_little_endian(Bytes blob, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(blob[offset + i]) << (8 * i)));
  }
  return value;
}

bool has_magic(Bytes blob, const char* magic) { return std::memcmp(blob.data(), magic, kMagicBytes) == 0; }

Error check_magic(Bytes blob) {
  if (has_magic(blob, "TR01") || has_magic(blob, "TR02")) {
    return Error::Ok;
  }
  if (blob[0] == 'T' && blob[1] == 'R' && blob[2] >= '0' && blob[2] <= '9' && blob[3] >= '0' &&
      blob[3] <= '9') {
    ET_LOG(Error,
           "Blob format is TR%c%c, but this delegate reads TR01 and TR02. "
           "Update torch-tensorrt-executorch-runtime, or export the model with this version.",
           blob[2], blob[3]);
  } else {
    ET_LOG(Error,
           "Blob begins with the bytes %02x %02x %02x %02x, expected TR01 or TR02: this is no TensorRT "
           "delegate blob. "
           "Export the model again.",
           blob[0], blob[1], blob[2], blob[3]);
  }
  return Error::InvalidProgram;
}

// Offsets and sizes come from the file: compare by subtraction, because a sum may wrap.
bool fits(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

Error check_metadata(uint64_t offset, uint64_t size, uint64_t blob_size) {
  ET_CHECK_OR_RETURN_ERROR(offset >= kHeaderBytes, InvalidProgram,
                           "Blob metadata begins at byte %" PRIu64
                           ", inside the %zu byte header: the file is damaged. Export it again.",
                           offset, kHeaderBytes);
  ET_CHECK_OR_RETURN_ERROR(size <= kMaxMetadataBytes, InvalidProgram,
                           "Blob metadata has %" PRIu64
                           " bytes, at most %zu are allowed: the file is damaged. Export it again.",
                           size, kMaxMetadataBytes);
  ET_CHECK_OR_RETURN_ERROR(fits(offset, size, blob_size), InvalidProgram,
                           "Blob metadata (%" PRIu64 " bytes at byte %" PRIu64
                           ") passes the end of the blob at %" PRIu64
                           ": the file is cut short. Copy or export it again.",
                           size, offset, blob_size);
  return Error::Ok;
}

Error check_engine(uint64_t offset, uint64_t size, uint64_t metadata_end, uint64_t blob_size) {
  ET_CHECK_OR_RETURN_ERROR(offset % kEngineAlignment == 0, InvalidProgram,
                           "Engine begins at byte %" PRIu64
                           ", expected a multiple of %zu: the file is damaged. Export it again.",
                           offset, kEngineAlignment);
  ET_CHECK_OR_RETURN_ERROR(offset >= metadata_end, InvalidProgram,
                           "Engine begins at byte %" PRIu64 ", before the metadata ends at %" PRIu64
                           ": the file is damaged. Export it again.",
                           offset, metadata_end);
  ET_CHECK_OR_RETURN_ERROR(size > 0, InvalidProgram,
                           "The blob's engine has no bytes: the file is damaged. Export it again.");
  ET_CHECK_OR_RETURN_ERROR(fits(offset, size, blob_size), InvalidProgram,
                           "Engine (%" PRIu64 " bytes at byte %" PRIu64
                           ") passes the end of the blob at %" PRIu64
                           ": the file is cut short. Copy or export it again.",
                           size, offset, blob_size);
  return Error::Ok;
}

}  // namespace

Result<Header> parse_header(Bytes blob) {
  ET_CHECK_OR_RETURN_ERROR(
      blob.size() >= kHeaderBytes, InvalidProgram,
      "Blob has %zu bytes, but its header alone has %zu: the file is cut short. Copy or export it again.",
      blob.size(), kHeaderBytes);
  ET_CHECK_OK_OR_RETURN_ERROR(check_magic(blob));

  const uint64_t metadata_offset = read_little_endian<uint32_t>(blob, kMetadataOffsetField);
  const uint64_t metadata_size = read_little_endian<uint32_t>(blob, kMetadataSizeField);
  const uint64_t engine_offset = read_little_endian<uint32_t>(blob, kEngineOffsetField);
  const uint64_t engine_size = read_little_endian<uint64_t>(blob, kEngineSizeField);
  ET_CHECK_OK_OR_RETURN_ERROR(check_metadata(metadata_offset, metadata_size, blob.size()));
  ET_CHECK_OK_OR_RETURN_ERROR(
      check_engine(engine_offset, engine_size, metadata_offset + metadata_size, blob.size()));

  Header header;
  header.aliased_magic = has_magic(blob, "TR02");
  header.metadata_offset = static_cast<size_t>(metadata_offset);
  header.metadata_size = static_cast<size_t>(metadata_size);
  header.engine_offset = static_cast<size_t>(engine_offset);
  header.engine_size = static_cast<size_t>(engine_size);
  return header;
}

}  // namespace executorch::backends::tensorrt
