// A libFuzzer target: any bytes, as a whole blob and as its metadata, are either refused or understood; an
// engine that is found lies inside them.

#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdlib>
#include <string>

#include "blob/blob.h"

using namespace executorch::backends::tensorrt;

namespace {

// The sentences are made, as their text is from the file, too; but millions of them are not printed.
void discard(et_timestamp_t, et_pal_log_level_t, const char*, const char*, size_t, const char*, size_t) {}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  executorch::runtime::runtime_init();
  executorch::runtime::register_pal(executorch::runtime::PalImpl::create(&discard, __FILE__));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto blob = parse_blob(Bytes(data, size));
  if (blob.ok() && (blob->engine.begin() < data || blob->engine.end() > data + size)) {
    std::abort();
  }
  // Few random bytes get past the header, so the metadata's reader has an entrance of its own.
  const auto metadata = parse_metadata(Bytes(data, size));
  if (metadata.ok() && metadata->has_bindings != !metadata->bindings.empty()) {
    std::abort();
  }
  static_cast<void>(order_by_suffix({std::string(data, data + size), "x.0"}));
  return 0;
}
