#pragma once

#include <executorch/runtime/core/result.h>

#include <cstdint>
#include <memory>
#include <string>

namespace executorch::backends::tensorrt {

using runtime::Error;
using runtime::Result;

/// Which TensorRT a library is. Full, lean and dispatch belong to TensorRT 11; RTX is a product of its own.
enum class LibraryFlavor { kFull, kLean, kDispatch, kRTX };

/// The product's name for people, such as "TensorRT-RTX".
const char* to_string(LibraryFlavor flavor);

/// What a library says of itself.
struct LibraryVersion {
  int32_t major;
  int32_t minor;
  int32_t patch;
  int32_t build;

  std::string text() const;
};

/// A TensorRT library that is open and whose interface we know. It stays mapped for the life of the process,
/// because TensorRT leaves threads and exit handlers behind that must not lose their code.
class Library {
 public:
  /// Opens the file or SONAME `path` and checks its version before anything in it is created.
  ///
  /// On failure nothing is logged: `why` says in one sentence what was found and what was expected, because a
  /// search goes on to the next place. `only_if_loaded` looks for a copy that is already in the process.
  static Result<std::unique_ptr<Library>> open(const std::string& path, bool only_if_loaded,
                                               std::string& why);

  LibraryFlavor flavor() const { return flavor_; }
  const LibraryVersion& version() const { return version_; }
  const std::string& path() const { return path_; }

  /// Name, version and file, as every message should state them.
  std::string description() const;

  /// The library's factory: the outer runtime object, unchecked.
  void* create_runtime() const;

  /// Whether an address lies in this library's own file.
  bool contains(const void* address) const;

 private:
  using CreateRuntime = void* (*)(void* logger, int32_t version);

  Library() = default;
  Error read_version(void* handle, std::string& why);
  Error choose_flavor(std::string& why);

  LibraryFlavor flavor_ = LibraryFlavor::kFull;
  LibraryVersion version_{};
  int32_t encoded_version_ = 0;
  std::string path_;
  const void* base_ = nullptr;
  CreateRuntime create_runtime_ = nullptr;
};

}  // namespace executorch::backends::tensorrt
