// What the exporter writes, the delegate reads.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "blob/blob.h"

namespace executorch::backends::tensorrt {
namespace {

std::vector<uint8_t> read_file(const std::string& name) {
  std::ifstream file(std::string(TEST_BLOBS_DIR) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(Writer, ABlobWithoutAnyFactsIsRead) {
  const std::vector<uint8_t> bytes = read_file("plain.blob");
  const auto blob = parse_blob(Bytes(bytes.data(), bytes.size()));
  ASSERT_TRUE(blob.ok());
  EXPECT_FALSE(blob->aliased_magic);
  EXPECT_EQ(std::string(blob->engine.begin(), blob->engine.end()), "ENGINE");
  ASSERT_EQ(blob->metadata.bindings.size(), 2u);
  EXPECT_EQ(blob->metadata.bindings[0].dtype, "");
  EXPECT_EQ(blob->metadata.engine_sha256.size(), 64u);
}

TEST(Writer, EveryFactIsRead) {
  const std::vector<uint8_t> bytes = read_file("rich.blob");
  const auto blob = parse_blob(Bytes(bytes.data(), bytes.size()));
  ASSERT_TRUE(blob.ok());
  EXPECT_TRUE(blob->aliased_magic);
  EXPECT_EQ(blob->engine.size(), 260u);
  const Metadata& metadata = blob->metadata;
  ASSERT_EQ(metadata.bindings.size(), 4u);
  EXPECT_EQ(metadata.bindings[0].shape, (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(metadata.bindings[1].name, "aliased_io \"state\"");
  EXPECT_TRUE(metadata.bindings[1].is_input);
  EXPECT_EQ(metadata.bindings[2].name, "y\\0");
  EXPECT_EQ(metadata.bindings[2].dtype, "bool");
  ASSERT_EQ(metadata.aliases.size(), 1u);
  EXPECT_EQ(metadata.aliases[0].input, "aliased_io \"state\"");
  EXPECT_EQ(metadata.aliases[0].kind, AliasKind::kUser);
  EXPECT_TRUE(metadata.hardware_compatible);
  EXPECT_EQ(metadata.device_id, 3);
  EXPECT_EQ(metadata.target_platform, "linux_x86_64");
  EXPECT_EQ(metadata.tensorrt_flavor, EngineFlavor::kTensorRTRTX);
  EXPECT_EQ(metadata.tensorrt_version, "1.6.1.120");
  EXPECT_EQ(metadata.compute_capabilities, (std::vector<std::string>{"8.0", "9.0"}));
  EXPECT_EQ(metadata.layers, 62);
}

}  // namespace
}  // namespace executorch::backends::tensorrt
