// A libFuzzer target: any bytes are either refused or give an engine inside them. Build with clang:
// cmake -DCMAKE_CXX_COMPILER=clang++ ... --target fuzz_blob

#include <cstdlib>

#include "blob/blob.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace executorch::backends::tensorrt;
  const auto blob = parse_blob(Bytes(data, size));
  if (blob.ok() && (blob->engine.begin() < data || blob->engine.end() > data + size)) {
    std::abort();
  }
  return 0;
}
