#include "blob/engine_digest.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace executorch::backends::tensorrt {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

std::vector<uint8_t> engine_of(size_t size_bytes) {
  std::vector<uint8_t> bytes(size_bytes);
  for (size_t i = 0; i < size_bytes; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 131 + 7 + (i >> 13));
  }
  return bytes;
}

Bytes view(const std::vector<uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }

TEST(EngineDigest, IsTheSha256OfASmallEngine) {
  for (const size_t size : {size_t{0}, size_t{1}, kMiB - 1, kMiB}) {
    const auto engine = engine_of(size);
    EXPECT_EQ(digest_of_engine(view(engine)), sha256(view(engine))) << size;
  }
}

TEST(EngineDigest, IsTheSha256OfTheDigestsOfThePiecesOfALargeEngine) {
  for (const size_t size : {kMiB + 1, 2 * kMiB, 20 * kMiB + 5}) {
    const auto engine = engine_of(size);
    std::vector<uint8_t> digests;
    for (size_t offset = 0; offset < size; offset += kMiB) {
      const Sha256Digest digest = sha256({engine.data() + offset, std::min(kMiB, size - offset)});
      digests.insert(digests.end(), digest.begin(), digest.end());
    }
    EXPECT_EQ(digest_of_engine(view(engine)), sha256(view(digests))) << size;
  }
}

TEST(EngineDigest, IsTheOneThatTheExportComputes) {
  EXPECT_EQ(to_hex(digest_of_engine(view(engine_of(3 * kMiB + 17)))),
            "172aef2a22b57d4d805897fdd2e4ec118880481fbe3fa0522531a1af00a91d52");
}

TEST(EngineDigest, ChangesWithEveryPiece) {
  auto engine = engine_of(9 * kMiB);
  const Sha256Digest before = digest_of_engine(view(engine));
  for (size_t piece = 0; piece < 9; ++piece) {
    engine[piece * kMiB + 17] ^= 1;
    EXPECT_NE(digest_of_engine(view(engine)), before) << piece;
    engine[piece * kMiB + 17] ^= 1;
  }
  EXPECT_EQ(digest_of_engine(view(engine)), before);
}

}  // namespace
}  // namespace executorch::backends::tensorrt
