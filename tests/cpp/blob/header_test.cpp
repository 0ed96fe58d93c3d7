#include "blob/header.h"

#include <limits>

#include <gtest/gtest.h>

#include "tests/cpp/support/blob_bytes.h"
#include "tests/cpp/support/captured_log.h"

namespace executorch::backends::tensorrt {
namespace {

using executorch::runtime::Error;
using testing::CapturedLog;
using testing::RawHeader;

constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

RawHeader valid_header() {
  RawHeader header;
  header.metadata_size = 10;
  header.engine_offset = 48;
  header.engine_size = 6;
  return header;
}

std::vector<uint8_t> bytes_of(const RawHeader& header, size_t total = 54) {
  std::vector<uint8_t> bytes = testing::to_bytes(header);
  bytes.resize(total);
  return bytes;
}

Bytes view(const std::vector<uint8_t>& bytes) { return Bytes(bytes.data(), bytes.size()); }

void expect_refused(const std::vector<uint8_t>& bytes, const std::string& sentence) {
  const CapturedLog log;
  EXPECT_EQ(parse_header(view(bytes)).error(), Error::InvalidProgram);
  ASSERT_EQ(log.errors().size(), 1u) << "one line per failure, for: " << sentence;
  EXPECT_EQ(log.errors()[0], sentence);
}

TEST(Header, ReadsEveryField) {
  const auto bytes = bytes_of(valid_header());
  const auto header = parse_header(view(bytes));
  ASSERT_TRUE(header.ok());
  EXPECT_FALSE(header->aliased_magic);
  EXPECT_EQ(header->metadata_offset, 32u);
  EXPECT_EQ(header->metadata_size, 10u);
  EXPECT_EQ(header->engine_offset, 48u);
  EXPECT_EQ(header->engine_size, 6u);
}

TEST(Header, AcceptsTheMagicOfAliasedBlobs) {
  RawHeader header = valid_header();
  header.magic = "TR02";
  const auto bytes = bytes_of(header);
  ASSERT_TRUE(parse_header(view(bytes)).ok());
  EXPECT_TRUE(parse_header(view(bytes))->aliased_magic);
}

TEST(Header, IgnoresReservedAndTrailingBytes) {
  auto bytes = bytes_of(valid_header(), 1000);
  std::fill(bytes.begin() + 24, bytes.begin() + 32, 0xff);
  EXPECT_TRUE(parse_header(view(bytes)).ok());
}

TEST(Header, RefusesEveryLengthBelowTheEngineEnd) {
  const auto bytes = bytes_of(valid_header());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const CapturedLog log;
    EXPECT_EQ(parse_header(Bytes(bytes.data(), size)).error(), Error::InvalidProgram) << size;
    EXPECT_TRUE(log.contains("the file is cut short")) << size << ": " << log.text();
  }
}

TEST(Header, RefusesNoBytes) {
  expect_refused(
      {}, "Blob has 0 bytes, but its header alone has 32: the file is cut short. Copy or export it again.");
}

TEST(Header, RefusesAnotherMagic) {
  RawHeader header = valid_header();
  header.magic = std::string("AB\0\xff", 4);
  expect_refused(
      bytes_of(header),
      "Blob begins with the bytes 41 42 00 ff, expected TR01 or TR02: this is no TensorRT delegate blob. "
      "Export the model again.");
}

TEST(Header, RefusesAFutureFormatByName) {
  RawHeader header = valid_header();
  header.magic = "TR03";
  expect_refused(bytes_of(header),
                 "Blob format is TR03, but this delegate reads TR01 and TR02. Update "
                 "torch-tensorrt-executorch-runtime, or export the model with this version.");
}

TEST(Header, RefusesMetadataInsideTheHeader) {
  RawHeader header = valid_header();
  header.metadata_offset = 31;
  expect_refused(
      bytes_of(header),
      "Blob metadata begins at byte 31, inside the 32 byte header: the file is damaged. Export it again.");
}

TEST(Header, RefusesTooMuchMetadata) {
  RawHeader header = valid_header();
  header.metadata_size = kMax32;
  expect_refused(bytes_of(header),
                 "Blob metadata has 4294967295 bytes, at most 16777216 are allowed: the file is damaged. "
                 "Export it again.");
}

TEST(Header, RefusesMetadataPastTheEnd) {
  RawHeader header = valid_header();
  header.metadata_offset = kMax32;
  expect_refused(
      bytes_of(header),
      "Blob metadata (10 bytes at byte 4294967295) passes the end of the blob at 54: the file is cut "
      "short. Copy or export it again.");
}

TEST(Header, RefusesAnUnalignedEngine) {
  RawHeader header = valid_header();
  header.engine_offset = 44;
  expect_refused(
      bytes_of(header),
      "Engine begins at byte 44, expected a multiple of 16: the file is damaged. Export it again.");
}

TEST(Header, RefusesAnEngineOverTheMetadata) {
  RawHeader header = valid_header();
  header.engine_offset = 32;
  expect_refused(
      bytes_of(header),
      "Engine begins at byte 32, before the metadata ends at 42: the file is damaged. Export it again.");
}

TEST(Header, RefusesAnEmptyEngine) {
  RawHeader header = valid_header();
  header.engine_size = 0;
  expect_refused(bytes_of(header), "The blob's engine has no bytes: the file is damaged. Export it again.");
}

TEST(Header, RefusesAnEnginePastTheEnd) {
  RawHeader header = valid_header();
  header.engine_size = 7;
  expect_refused(
      bytes_of(header),
      "Engine (7 bytes at byte 48) passes the end of the blob at 54: the file is cut short. Copy or "
      "export it again.");
  header.engine_offset = kMax32 / 16 * 16;
  EXPECT_FALSE(parse_header(view(bytes_of(header))).ok());
}

TEST(Header, RefusesSizesWhoseSumWraps) {
  for (const uint64_t size : {kMax64, kMax64 - 15, kMax64 - 47, kMax64 - 48 + 1, uint64_t{1} << 63}) {
    RawHeader header = valid_header();
    header.engine_size = size;
    const CapturedLog log;
    EXPECT_EQ(parse_header(view(bytes_of(header))).error(), Error::InvalidProgram) << size;
    EXPECT_TRUE(log.contains("passes the end of the blob")) << log.text();
  }
}

}  // namespace
}  // namespace executorch::backends::tensorrt
