#include "blob/blob.h"

#include <cstring>

#include <gtest/gtest.h>

#include "blob/sha256.h"
#include "tests/cpp/support/blob_bytes.h"
#include "tests/cpp/support/captured_log.h"

namespace executorch::backends::tensorrt {
namespace {

using executorch::runtime::Error;
using testing::CapturedLog;
using testing::make_blob;

// The worked examples of docs/format.md, byte for byte.
const char kPlainJson[] =
    R"({"io_bindings":[{"name":"x.0","dtype":"","shape":[],"is_input":true},)"
    R"({"name":"y.0","dtype":"","shape":[],"is_input":false}],"aliased_io":[],"hardware_compatible":false,)"
    R"("device_id":0,"serialized_metadata":"","target_platform":""})";
const char kAliasedJson[] =
    R"({"io_bindings":[{"name":"x.0","dtype":"","shape":[],"is_input":true},)"
    R"({"name":"y.0","dtype":"","shape":[],"is_input":false}],)"
    R"("aliased_io":[{"output":"y.0","input":"x.0","kind":"user"}],"hardware_compatible":false,)"
    R"("device_id":0,"serialized_metadata":"","target_platform":""})";

std::vector<uint8_t> plain_blob() {
  const uint8_t header[] = {0x54, 0x52, 0x30, 0x31, 0x20, 0, 0, 0, 0xe4, 0, 0, 0, 0x10, 1, 0, 0,
                            6,    0,    0,    0,    0,    0, 0, 0, 1,    0, 0, 0, 0,    0, 0, 0};
  std::vector<uint8_t> bytes(header, header + sizeof(header));
  bytes.insert(bytes.end(), kPlainJson, kPlainJson + std::strlen(kPlainJson));
  bytes.resize(272);
  for (const char c : std::string("ENGINE")) {
    bytes.push_back(static_cast<uint8_t>(c));
  }
  return bytes;
}

Bytes view(const std::vector<uint8_t>& bytes) { return Bytes(bytes.data(), bytes.size()); }

Bytes view(const std::string& text) {
  return Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::string text_of(Bytes bytes) { return std::string(bytes.begin(), bytes.end()); }

TEST(Blob, ReadsTheWorkedExample) {
  const auto bytes = plain_blob();
  ASSERT_EQ(bytes.size(), 278u);
  const auto blob = parse_blob(view(bytes));
  ASSERT_TRUE(blob.ok());
  EXPECT_FALSE(blob->aliased_magic);
  EXPECT_EQ(text_of(blob->engine), "ENGINE");
  EXPECT_EQ(blob->engine.data(), bytes.data() + 272) << "the engine is not copied";
  ASSERT_EQ(blob->metadata.bindings.size(), 2u);
  EXPECT_EQ(blob->metadata.bindings[0].name, "x.0");
  EXPECT_TRUE(blob->metadata.bindings[0].is_input);
  EXPECT_EQ(blob->metadata.bindings[1].name, "y.0");
  EXPECT_FALSE(blob->metadata.bindings[1].is_input);
}

TEST(Blob, ReadsTheAliasedExample) {
  const auto bytes = make_blob(kAliasedJson, "ENGINE", "TR02");
  ASSERT_EQ(bytes.size(), 310u);
  const auto blob = parse_blob(view(bytes));
  ASSERT_TRUE(blob.ok());
  EXPECT_TRUE(blob->aliased_magic);
  ASSERT_EQ(blob->metadata.aliases.size(), 1u);
  EXPECT_EQ(blob->metadata.aliases[0].kind, AliasKind::kUser);
}

TEST(Blob, HonoursAliasesUnderEitherMagic) {
  const auto old_magic = make_blob(kAliasedJson, "ENGINE", "TR01");
  ASSERT_TRUE(parse_blob(view(old_magic)).ok());
  EXPECT_EQ(parse_blob(view(old_magic))->metadata.aliases.size(), 1u);
  const auto new_magic = make_blob(kPlainJson, "ENGINE", "TR02");
  ASSERT_TRUE(parse_blob(view(new_magic)).ok());
  EXPECT_TRUE(parse_blob(view(new_magic))->metadata.aliases.empty());
}

TEST(Blob, RefusesEveryTruncationWithOneSentence) {
  const auto bytes = plain_blob();
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A buffer of exactly this size, so that a sanitizer sees any read past it.
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const CapturedLog log;
    EXPECT_EQ(parse_blob(view(cut)).error(), Error::InvalidProgram) << size;
    EXPECT_EQ(log.errors().size(), 1u) << size << ": " << log.text();
  }
}

TEST(Blob, ToleratesTrailingBytes) {
  auto bytes = plain_blob();
  bytes.push_back(0x55);
  const auto blob = parse_blob(view(bytes));
  ASSERT_TRUE(blob.ok());
  EXPECT_EQ(text_of(blob->engine), "ENGINE");
}

TEST(Blob, SurvivesEveryFlippedByteOfHeaderAndMetadata) {
  const auto original = plain_blob();
  for (size_t i = 0; i < 272; ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      auto bytes = original;
      bytes[i] = static_cast<uint8_t>(bytes[i] ^ flip);
      const CapturedLog log;
      const auto blob = parse_blob(view(bytes));
      if (blob.ok()) {
        EXPECT_LE(blob->engine.data() + blob->engine.size(), bytes.data() + bytes.size());
      } else {
        EXPECT_EQ(log.errors().size(), 1u) << log.text();
      }
    }
  }
}

std::string json_with(const std::string& members) { return R"({"io_bindings":[],)" + members + "}"; }

TEST(Blob, AcceptsTheRightDigest) {
  const std::string engine = "vtrt and more";
  const auto bytes =
      make_blob(json_with(R"("engine_sha256":")" + to_hex(sha256(view(engine))) + "\""), engine);
  EXPECT_TRUE(parse_blob(view(bytes)).ok());
}

TEST(Blob, RefusesADamagedEngineAtEveryByte) {
  const std::string engine = "vtrt and more";
  const std::string digest = to_hex(sha256(view(engine)));
  for (size_t i = 0; i < engine.size(); ++i) {
    std::string damaged = engine;
    damaged[i] ^= 0x10;
    const auto bytes = make_blob(json_with(R"("engine_sha256":")" + digest + "\""), damaged);
    const CapturedLog log;
    EXPECT_EQ(parse_blob(view(bytes)).error(), Error::InvalidProgram);
    ASSERT_EQ(log.errors().size(), 1u);
    EXPECT_EQ(log.errors()[0], "The engine's SHA-256 is " + to_hex(sha256(view(damaged))).substr(0, 16) +
                                   "..., but the blob records " + digest.substr(0, 16) +
                                   "...: the engine is damaged. Copy or export the file again.");
  }
}

TEST(Blob, RefusesAnEngineOfAnotherFlavorThanRecorded) {
  const auto bytes = make_blob(json_with(R"("tensorrt":{"flavor":"rtx","version":"1.6.1.120"})"), "ftrt...");
  const CapturedLog log;
  EXPECT_EQ(parse_blob(view(bytes)).error(), Error::InvalidProgram);
  ASSERT_EQ(log.errors().size(), 1u);
  EXPECT_EQ(log.errors()[0],
            "The blob records an engine of TensorRT-RTX, but the engine's first bytes are those of TensorRT. "
            "Export the model again.");
}

TEST(Blob, LeavesAnUnknownEngineToTensorRT) {
  const auto bytes = make_blob(json_with(R"("tensorrt":{"flavor":"rtx","version":"1.6.1.120"})"), "????");
  EXPECT_TRUE(parse_blob(view(bytes)).ok());
}

TEST(EngineFlavor, FollowsTheFirstFourBytes) {
  EXPECT_EQ(engine_flavor(view(std::string("vtrt"))), EngineFlavor::kTensorRTRTX);
  EXPECT_EQ(engine_flavor(view(std::string("ftrt\0\1", 6))), EngineFlavor::kTensorRT);
  EXPECT_EQ(engine_flavor(view(std::string("vtr"))), EngineFlavor::kUnknown);
  EXPECT_EQ(engine_flavor(view(std::string("VTRT"))), EngineFlavor::kUnknown);
  EXPECT_EQ(engine_flavor(Bytes()), EngineFlavor::kUnknown);
}

}  // namespace
}  // namespace executorch::backends::tensorrt
