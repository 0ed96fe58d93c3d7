#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "header.h"

namespace executorch::backends::tensorrt {

using Sha256Digest = std::array<uint8_t, 32>;

/// Computes the SHA-256 digest of `data` (FIPS 180-4), with the processor's SHA instructions where it has
/// them.
Sha256Digest sha256(Bytes data);

/// The same digest from portable code only. `sha256` uses it on processors without SHA instructions.
Sha256Digest sha256_portable(Bytes data);

/// Writes a digest as 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256Digest& digest);

}  // namespace executorch::backends::tensorrt
