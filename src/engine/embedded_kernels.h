#pragma once

#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>

#include <optional>
#include <string>
#include <utility>

#include "blob/header.h"

namespace executorch::backends::tensorrt {

/// Which machine kernels were compiled for, and of which engine.
struct KernelKey {
  std::string engine_digest;  ///< as `digest_of_engine` has it
  std::string library;        ///< the version that compiled them, such as "1.6.1.120"
  std::string gpu;            ///< the GPU model's name

  /// The key of their named data in a program. Source: docs/format.md, "Compiled kernels".
  std::string text() const;
};

/// Kernels that were taken out of a program.
class EmbeddedKernelBytes {
 public:
  EmbeddedKernelBytes(runtime::FreeableBuffer buffer, Bytes kernels)
      : buffer_(std::move(buffer)), kernels_(kernels) {}

  Bytes bytes() const { return kernels_; }

 private:
  runtime::FreeableBuffer buffer_;
  Bytes kernels_;  ///< inside the buffer
};

/// The compiled kernels that travel in a program, as its named data. They only save time: what is missing,
/// damaged or for another machine is remarked on and compiled as usual.
class EmbeddedKernels {
 public:
  /// `data` may be null, when the program holds no named data, and must outlive this object.
  explicit EmbeddedKernels(const runtime::NamedDataMap* data = nullptr) : data_(data) {}

  /// The kernels for `key`, whole. `label` names the engine in remarks.
  std::optional<EmbeddedKernelBytes> find(const KernelKey& key, const std::string& label) const;

 private:
  const runtime::NamedDataMap* data_;
};

}  // namespace executorch::backends::tensorrt
