#pragma once

#include <cstddef>
#include <cstdint>

#include <executorch/runtime/core/result.h>
#include <executorch/runtime/core/span.h>

namespace executorch::backends::tensorrt {

/// Read-only bytes that somebody else owns.
using Bytes = executorch::runtime::Span<const uint8_t>;

constexpr size_t kHeaderBytes = 32;
constexpr size_t kEngineAlignment = 16;
constexpr size_t kMaxMetadataBytes = size_t{16} << 20;

/// Where the parts of one delegate blob lie. Every range is inside the blob it was read from.
struct Header {
  /// True for `TR02`, the magic of blobs whose outputs share memory with inputs.
  bool aliased_magic = false;
  size_t metadata_offset = 0;
  size_t metadata_size = 0;
  size_t engine_offset = 0;
  size_t engine_size = 0;
};

/// Reads the fixed header and checks that both parts lie inside the blob, in order and without overlap.
///
/// Returns `InvalidProgram` after logging which field is wrong, with its value and the permitted range.
/// Source of the layout: docs/format.md, "Header".
executorch::runtime::Result<Header> parse_header(Bytes blob);

}  // namespace executorch::backends::tensorrt
