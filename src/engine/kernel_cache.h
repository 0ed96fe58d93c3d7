#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/embedded_kernels.h"

namespace executorch::backends::tensorrt {

/// The folder in which TensorRT-RTX's compiled kernels are kept between processes, a file for each engine,
/// library version and GPU model. It is only a cache: whatever goes wrong with it costs time and is never an
/// error.
///
/// The folder is the process option `runtime_cache_folder`, else TENSORRT_EXECUTORCH_CACHE, else
/// `$XDG_CACHE_HOME/torch-tensorrt-executorch-runtime`, else the same below `~/.cache`; "off" switches it
/// off. Files are written aside and renamed, so readers in other processes see whole files; a file that is
/// damaged all the same is removed. The least recently used files go when the folder outgrows its limit.
class KernelCache {
 public:
  explicit KernelCache(const KernelKey& key);

  /// The kernels that an earlier process kept; empty when there are none.
  std::vector<uint8_t> read() const;

  /// How many bytes `read` would give, judged by the size of the file.
  uint64_t size_bytes() const;

  /// Keeps kernels for later processes.
  void write(const uint8_t* bytes, size_t size_bytes) const;

  /// Sets the folder for the whole process; "" goes back to the environment, "off" switches the cache off.
  static void set_folder(const std::string& folder);
  static std::string folder();

  static constexpr uint64_t kLimitBytes = uint64_t{2} << 30;

 private:
  std::string path_;  ///< empty: switched off
};

}  // namespace executorch::backends::tensorrt
