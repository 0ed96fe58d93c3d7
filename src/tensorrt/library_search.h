#pragma once

#include <executorch/runtime/core/result.h>

#include <string>
#include <vector>

#include "tensorrt/library.h"

namespace executorch::backends::tensorrt {

/// The two products, as an engine's first bytes tell them apart.
enum class Product { kTensorRT, kTensorRTRTX };

/// Sets where to look first: library files separated by ':'; "" goes back to the environment variable
/// TENSORRT_EXECUTORCH_LIBRARY. An engine that is loaded keeps the library that it has.
void set_library_files(const std::string& files);
std::string library_files();

/// Adds a folder that holds TensorRT wheels (a site-packages), looked at after the one that this library lies
/// in.
void add_search_folder(const std::string& folder);

/// The library that runs engines of `product`: found once, kept for the life of the process.
///
/// Looks, in this order, at the files that were set; at a copy already in the process; at the TensorRT wheels
/// beside this library and in the added folders; on the loader's path. A file that was set but cannot be used
/// is refused and not passed over. When nothing is found the log names every place.
Result<const Library*> find_library(Product product);

/// One flavour's library where the search finds it, for reports: nothing is logged, `why` says what is
/// missing.
const Library* find_flavor(LibraryFlavor flavor, std::string& why);

}  // namespace executorch::backends::tensorrt
