#pragma once

#include "header.h"
#include "metadata.h"

namespace executorch::backends::tensorrt {

/// One delegate blob, taken apart. `engine` points into the bytes that were parsed and lives as long as they
/// do.
struct Blob {
  Metadata metadata;
  Bytes engine;
  bool aliased_magic = false;
};

/// Says which TensorRT wrote an engine, by its first four bytes (`vtrt`: TensorRT-RTX, `ftrt`: TensorRT).
EngineFlavor engine_flavor(Bytes engine);

/// Takes a blob apart and checks all that can be known without TensorRT, the engine's digest included.
///
/// Returns `InvalidProgram` after logging one sentence. Trailing bytes after the engine are ignored.
executorch::runtime::Result<Blob> parse_blob(Bytes bytes);

}  // namespace executorch::backends::tensorrt
