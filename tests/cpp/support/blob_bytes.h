#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace executorch::backends::tensorrt::testing {

/// The 32-byte header with any field values, right or wrong.
struct RawHeader {
  std::string magic = "TR01";
  uint32_t metadata_offset = 32;
  uint32_t metadata_size = 0;
  uint32_t engine_offset = 32;
  uint64_t engine_size = 0;
};

std::vector<uint8_t> to_bytes(const RawHeader& header);

/// A well-formed blob around any metadata and engine.
std::vector<uint8_t> make_blob(const std::string& json, const std::vector<uint8_t>& engine,
                               const std::string& magic = "TR01");
std::vector<uint8_t> make_blob(const std::string& json, const std::string& engine,
                               const std::string& magic = "TR01");

}  // namespace executorch::backends::tensorrt::testing
