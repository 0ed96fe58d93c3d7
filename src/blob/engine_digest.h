#pragma once

#include "sha256.h"

namespace executorch::backends::tensorrt {

/// Computes the digest that blobs record of their engine, on several threads for a large one.
///
/// An engine of up to 1 MiB has its SHA-256. A larger one has the SHA-256 of the digests of its pieces of
/// 1 MiB, one after the other; the last piece may be shorter.
Sha256Digest digest_of_engine(Bytes engine);

}  // namespace executorch::backends::tensorrt
