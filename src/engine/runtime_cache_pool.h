#pragma once

#include <cstddef>
#include <optional>

#include "engine/embedded_kernels.h"
#include "tensorrt/objects.h"

namespace executorch::backends::tensorrt {

/// The runtime caches of engines that were unloaded, for the next load of the same engine on the same GPU.
///
/// TensorRT-RTX 1.6 gives back neither host nor device memory of a runtime cache that its kernels were loaded
/// from, so a process that loads and unloads a program over and over would grow with each cache that it
/// makes. A cache that is used again costs nothing, and its kernels need not be read again. Thread-safe.
class RuntimeCachePool {
 public:
  struct Entry {
    RuntimeCache cache;
    size_t kept_bytes = 0;  ///< size of its kernels as they lie in the program or the cache folder
  };

  static std::optional<Entry> take(const KernelKey& key, int device);
  static void give_back(const KernelKey& key, int device, Entry entry);

  /// Destroys the caches that wait here.
  static void clear();

  /// More engines than one process is likely to load in turns; the cache that waited longest goes.
  static constexpr size_t kLimit = 64;
};

}  // namespace executorch::backends::tensorrt
