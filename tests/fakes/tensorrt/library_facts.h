#pragma once

#include <cstdint>

namespace fake_tensorrt {

/// What one of the fake libraries is; exports.cpp makes it from compile definitions.
struct LibraryFacts {
  int32_t major;
  int32_t minor;
  int32_t patch;
  int32_t build;
  bool is_rtx;
  bool needs_version_compatible_engines;  ///< lean and dispatch
  bool moved_slots;                       ///< a library whose methods are not where its version has them

  int32_t version() const { return major * 10000 + minor * 100 + patch; }
};

const LibraryFacts& facts();

}  // namespace fake_tensorrt
