#include "tensorrt/library_search.h"

#include <dlfcn.h>
#include <unistd.h>
#include "log/log.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

namespace executorch::backends::tensorrt {

namespace {

constexpr const char* kVariable = "TENSORRT_EXECUTORCH_LIBRARY";

struct Candidate {
  LibraryFlavor flavor;
  const char* soname;
  const char* wheel_folder;
};

constexpr Candidate kRTX[] = {{LibraryFlavor::kRTX, "libtensorrt_rtx.so.1", "tensorrt_rtx_libs"}};
constexpr Candidate kTensorRT[] = {
    {LibraryFlavor::kFull, "libnvinfer.so.11", "tensorrt_libs"},
    {LibraryFlavor::kLean, "libnvinfer_lean.so.11", "tensorrt_lean_libs"},
    {LibraryFlavor::kDispatch, "libnvinfer_dispatch.so.11", "tensorrt_dispatch_libs"},
};

std::vector<Candidate> candidates_of(Product product) {
  return product == Product::kTensorRTRTX
             ? std::vector<Candidate>(std::begin(kRTX), std::end(kRTX))
             : std::vector<Candidate>(std::begin(kTensorRT), std::end(kTensorRT));
}

Product product_of(LibraryFlavor flavor) {
  return flavor == LibraryFlavor::kRTX ? Product::kTensorRTRTX : Product::kTensorRT;
}

const char* name_of(Product product) {
  return product == Product::kTensorRTRTX ? "TensorRT-RTX 1.5 to 1.7" : "TensorRT 11";
}

const char* install_command(Product product) {
  return product == Product::kTensorRTRTX ? "pip install \"torch-tensorrt-executorch-runtime[rtx]\""
                                          : "pip install \"torch-tensorrt-executorch-runtime[tensorrt]\"";
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) {
      parts.push_back(list.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return parts;
}

/// The site-packages that this library is installed in: <folder>/<package>/lib/<this file>.
std::string own_site_packages() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_site_packages), &info) == 0) {
    return "";
  }
  std::string path = info.dli_fname;
  for (int level = 0; level < 3; ++level) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
      return "";
    }
    path.resize(slash);
  }
  return path;
}

/// Where a search went and what it met there, for the sentence that ends a search in vain.
class Trail {
 public:
  void add(const std::string& place, const std::string& why) {
    text_ += (text_.empty() ? "" : "; ") + place + ": " + why;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// All libraries that were opened and where to look. Never destroyed, as libraries stay in use until the
/// process ends.
class LibrarySearch {
 public:
  static LibrarySearch& instance() {
    static auto* const search = new LibrarySearch;
    return *search;
  }

  std::mutex mutex;
  std::optional<std::string> files;
  std::vector<std::string> folders{own_site_packages()};

  std::string explicit_files() const {
    const char* variable = std::getenv(kVariable);
    return files.has_value() ? *files : variable == nullptr ? "" : variable;
  }

  Result<const Library*> find(const std::vector<Candidate>& candidates, Trail& trail) {
    const std::string named = explicit_files();
    if (!named.empty()) {
      return find_named(named, candidates, trail);
    }
    for (const Candidate& candidate : candidates) {
      if (const Library* found = open(candidate.soname, true, candidate, trail)) {
        return found;
      }
    }
    for (const Candidate& candidate : candidates) {
      if (const Library* found = find_in_wheels(candidate, trail)) {
        return found;
      }
    }
    for (const Candidate& candidate : candidates) {
      if (const Library* found = open(candidate.soname, false, candidate, trail)) {
        return found;
      }
    }
    return Error::NotFound;
  }

 private:
  /// A file that the user named is used or refused: silently taking another one would hide the mistake.
  Result<const Library*> find_named(const std::string& named, const std::vector<Candidate>& candidates,
                                    Trail& trail) {
    for (const std::string& file : split(named)) {
      std::string why;
      const Library* library = opened(file, false, why);
      if (library == nullptr) {
        trail.add(kVariable, why);
        return Error::DelegateInvalidCompatibility;
      }
      for (const Candidate& candidate : candidates) {
        if (candidate.flavor == library->flavor()) {
          return library;
        }
      }
      trail.add(kVariable, "names " + library->description());
    }
    return Error::NotFound;
  }

  const Library* find_in_wheels(const Candidate& candidate, Trail& trail) {
    for (const std::string& folder : folders) {
      const std::string file = folder + "/" + candidate.wheel_folder + "/" + candidate.soname;
      if (access(file.c_str(), R_OK) != 0) {
        trail.add(file, "no such file");
      } else if (const Library* found = open(file, false, candidate, trail)) {
        return found;
      }
    }
    return nullptr;
  }

  const Library* open(const std::string& path, bool only_if_loaded, const Candidate& candidate,
                      Trail& trail) {
    std::string why;
    const Library* library = opened(path, only_if_loaded, why);
    if (library == nullptr) {
      trail.add(only_if_loaded ? path + " in this process" : path, why);
    }
    return library != nullptr && library->flavor() == candidate.flavor ? library : nullptr;
  }

  const Library* opened(const std::string& path, bool only_if_loaded, std::string& why) {
    auto library = Library::open(path, only_if_loaded, why);
    if (!library.ok()) {
      return nullptr;
    }
    auto& kept = libraries_[(*library)->path()];
    if (kept == nullptr) {
      kept = std::move(*library);
    }
    return kept.get();
  }

  std::map<std::string, std::unique_ptr<Library>> libraries_;
};

}  // namespace

void set_library_files(const std::string& files) {
  auto& search = LibrarySearch::instance();
  const std::lock_guard<std::mutex> lock(search.mutex);
  search.files = files.empty() ? std::nullopt : std::optional<std::string>(files);
}

std::string library_files() {
  auto& search = LibrarySearch::instance();
  const std::lock_guard<std::mutex> lock(search.mutex);
  return search.explicit_files();
}

void add_search_folder(const std::string& folder) {
  auto& search = LibrarySearch::instance();
  const std::lock_guard<std::mutex> lock(search.mutex);
  for (const std::string& known : search.folders) {
    if (known == folder) {
      return;
    }
  }
  search.folders.push_back(folder);
}

Result<const Library*> find_library(Product product) {
  auto& search = LibrarySearch::instance();
  const std::lock_guard<std::mutex> lock(search.mutex);
  Trail trail;
  auto library = search.find(candidates_of(product), trail);
  if (!library.ok()) {
    DELEGATE_LOG(Error,
                 "This engine needs %s, and no usable library was found. Looked at: %s. Run: %s, or set %s "
                 "to the library file.",
                 name_of(product), trail.text().c_str(), install_command(product), kVariable);
  }
  return library;
}

const Library* find_flavor(LibraryFlavor flavor, std::string& why) {
  auto& search = LibrarySearch::instance();
  const std::lock_guard<std::mutex> lock(search.mutex);
  Trail trail;
  for (const Candidate& candidate : candidates_of(product_of(flavor))) {
    if (candidate.flavor == flavor) {
      auto library = search.find({candidate}, trail);
      if (library.ok()) {
        return *library;
      }
    }
  }
  why = trail.text();
  return nullptr;
}

}  // namespace executorch::backends::tensorrt
