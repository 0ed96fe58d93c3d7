#include "tests/cpp/support/blob_bytes.h"

#include <cstddef>

namespace executorch::backends::tensorrt::testing {

namespace {

template <typename T>
void append(std::vector<uint8_t>& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
}

}  // namespace

std::vector<uint8_t> to_bytes(const RawHeader& header) {
  std::vector<uint8_t> out(header.magic.begin(), header.magic.end());
  append(out, header.metadata_offset);
  append(out, header.metadata_size);
  append(out, header.engine_offset);
  append(out, header.engine_size);
  append(out, uint64_t{1});
  return out;
}

std::vector<uint8_t> make_blob(const std::string& json, const std::vector<uint8_t>& engine,
                               const std::string& magic) {
  RawHeader header;
  header.magic = magic;
  header.metadata_size = static_cast<uint32_t>(json.size());
  header.engine_offset = static_cast<uint32_t>((32 + json.size() + 15) / 16 * 16);
  header.engine_size = engine.size();
  std::vector<uint8_t> out = to_bytes(header);
  out.insert(out.end(), json.begin(), json.end());
  out.resize(header.engine_offset);
  out.insert(out.end(), engine.begin(), engine.end());
  return out;
}

std::vector<uint8_t> make_blob(const std::string& json, const std::string& engine, const std::string& magic) {
  return make_blob(json, std::vector<uint8_t>(engine.begin(), engine.end()), magic);
}

}  // namespace executorch::backends::tensorrt::testing
