#include "blob/sha256.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace executorch::backends::tensorrt {
namespace {

Bytes view(const std::string& text) {
  return Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::string digest_of(const std::string& text) { return to_hex(sha256(view(text))); }

// The examples that accompany FIPS 180-4.
TEST(Sha256, MatchesThePublishedExamples) {
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, AgreesWithPortableCodeAtEveryLengthAroundBlockEdges) {
  std::string text;
  for (size_t size = 0; size < 300; ++size) {
    EXPECT_EQ(sha256(view(text)), sha256_portable(view(text))) << size;
    text += static_cast<char>(size * 131 + 7);
  }
}

TEST(Sha256, ReadsUnalignedData) {
  const std::string text = "x" + std::string(128, 'a');
  const Bytes shifted(reinterpret_cast<const uint8_t*>(text.data()) + 1, size_t{128});
  EXPECT_EQ(sha256(shifted), sha256(view(std::string(128, 'a'))));
}

TEST(Sha256, OneFlippedBitChangesTheDigest) {
  std::string text(1000, 'z');
  const std::string before = digest_of(text);
  text[999] ^= 1;
  EXPECT_NE(digest_of(text), before);
}

}  // namespace
}  // namespace executorch::backends::tensorrt
