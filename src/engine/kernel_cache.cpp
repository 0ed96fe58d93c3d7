#include "engine/kernel_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>

#include "engine/kernel_bytes.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "TENSORRT_EXECUTORCH_CACHE";
constexpr const char* kOff = "off";
constexpr const char* kOwnFolder = "torch-tensorrt-executorch-runtime";
constexpr const char* kSuffix = ".rtxcache";

std::mutex& setting_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

std::string& setting() {
  static auto* const folder = new std::string;
  return *folder;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// As the XDG base directory specification has it: a relative path does not count.
std::string default_folder() {
  const std::string cache = environment("XDG_CACHE_HOME");
  if (!cache.empty() && cache[0] == '/') {
    return cache + "/" + kOwnFolder;
  }
  const std::string home = environment("HOME");
  return home.empty() ? kOff : home + "/.cache/" + kOwnFolder;
}

/// A part of a file name: letters, digits, points and dashes.
std::string as_file_name(const std::string& text) {
  std::string name = text;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; },
      '_');
  return name;
}

std::vector<uint8_t> whole_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<uint8_t> bytes;
  if (file) {
    bytes.resize(static_cast<size_t>(std::max<std::streamoff>(file.tellg(), 0)));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file) {
      bytes.clear();
    }
  }
  return bytes;
}

bool write_aside_and_rename(const fs::path& path, const std::vector<uint8_t>& bytes) {
  static std::atomic<unsigned> count{0};
  const fs::path aside =
      path.string() + "." + std::to_string(getpid()) + "." + std::to_string(count++) + ".part";
  {
    std::ofstream file(aside, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) {
      std::error_code ignored;
      fs::remove(aside, ignored);
      return false;
    }
  }
  std::error_code error;
  fs::rename(aside, path, error);
  return !error;
}

/// Removes the least recently used files until the folder is within its limit.
void prune(const fs::path& folder, uint64_t limit_bytes) {
  struct Kept {
    fs::file_time_type used;
    uint64_t size_bytes;
    fs::path path;
  };
  std::vector<Kept> files;
  uint64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code gone;
    const Kept file{entry.last_write_time(gone), entry.file_size(gone), entry.path()};
    if (!gone && file.path.extension() == kSuffix) {
      total += file.size_bytes;
      files.push_back(file);
    }
  }
  std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
  for (const Kept& file : files) {
    if (total <= limit_bytes) {
      return;
    }
    fs::remove(file.path, error);
    total -= file.size_bytes;
  }
}

}  // namespace

void KernelCache::set_folder(const std::string& folder) {
  const std::lock_guard<std::mutex> lock(setting_mutex());
  setting() = folder;
}

std::string KernelCache::folder() {
  const std::lock_guard<std::mutex> lock(setting_mutex());
  const std::string chosen = setting().empty() ? environment(kVariable) : setting();
  return chosen.empty() ? default_folder() : chosen;
}

KernelCache::KernelCache(const KernelKey& key) {
  const std::string place = folder();
  if (place != kOff) {
    path_ = place + "/" + key.engine_digest + "-" + as_file_name(key.library) + "-" + as_file_name(key.gpu) +
            kSuffix;
  }
}

std::vector<uint8_t> KernelCache::read() const {
  if (path_.empty()) {
    return {};
  }
  std::vector<uint8_t> file = whole_file(path_);
  if (file.empty()) {
    return {};
  }
  std::error_code error;
  if (unseal_kernels({file.data(), file.size()}).empty()) {
    DELEGATE_LOG(Info, "Removing the damaged kernel cache file %s.", path_.c_str());
    fs::remove(path_, error);
    return {};
  }
  fs::last_write_time(path_, fs::file_time_type::clock::now(), error);
  // Moves the kernels to the front, which costs less than a second copy.
  file.erase(file.begin(), file.begin() + kKernelSealBytes);
  return file;
}

uint64_t KernelCache::size_bytes() const {
  std::error_code error;
  const uintmax_t size = path_.empty() ? 0 : fs::file_size(path_, error);
  return error || size < kKernelSealBytes ? 0 : size - kKernelSealBytes;
}

void KernelCache::write(const uint8_t* bytes, size_t size_bytes) const {
  if (path_.empty() || size_bytes == 0) {
    return;
  }
  const std::vector<uint8_t> file = seal_kernels({bytes, size_bytes});
  const fs::path path(path_);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error || !write_aside_and_rename(path, file)) {
    DELEGATE_LOG(
        Info,
        "The compiled kernels could not be kept in %s, so the next load compiles them again. Set %s to a "
        "folder that can be written, or to off.",
        path.parent_path().c_str(), kVariable);
    return;
  }
  prune(path.parent_path(), kLimitBytes);
}

}  // namespace executorch::backends::tensorrt
