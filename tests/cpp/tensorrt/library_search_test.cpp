// Where TensorRT is looked for. What is in a process stays there, so each case has a process of its own.

#include "tensorrt/library_search.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "TENSORRT_EXECUTORCH_LIBRARY";

class LibrarySearch : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Runs `check` in a fresh process; it returns "" or what is wrong.
  static void in_own_process(const std::function<std::string()>& check) {
    EXPECT_EXIT(
        {
          unsetenv(kVariable);
          const std::string complaint = check();
          std::fprintf(stderr, "%s", complaint.c_str());
          std::exit(complaint.empty() ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
  }

  /// "" when the search finds this file, else what happened.
  static std::string finds(Product product, const std::string& path) {
    const CapturedLog log;
    auto library = find_library(product);
    if (!library.ok()) {
      return "found nothing: " + log.text();
    }
    return (*library)->path() == path ? "" : "found " + (*library)->path();
  }

  /// "" when the search fails and its one sentence has all these parts.
  static std::string fails(Product product, const std::vector<std::string>& parts) {
    const CapturedLog log;
    const auto library = find_library(product);
    if (library.ok()) {
      return "found " + (*library)->path();
    }
    for (const std::string& part : parts) {
      if (!log.contains(part)) {
        return "missing: " + part + "\nin: " + log.text();
      }
    }
    return log.errors().size() == 1 ? "" : "more than one line: " + log.text();
  }
};

TEST_F(LibrarySearch, TakesTheFirstNamedFileThatFitsTheEngine) {
  in_own_process([] {
    const std::string rtx = fake_library("libtensorrt_rtx.so.1");
    const std::string lean = fake_library("libnvinfer_lean.so.11");
    setenv(kVariable, (rtx + ":" + lean + ":" + fake_library("libnvinfer.so.11")).c_str(), 1);
    return finds(Product::kTensorRTRTX, rtx) + finds(Product::kTensorRT, lean);
  });
}

TEST_F(LibrarySearch, PrefersWhatWasSetToTheEnvironment) {
  in_own_process([] {
    setenv(kVariable, fake_library("rtx-1.5/libtensorrt_rtx.so.1").c_str(), 1);
    set_library_files(fake_library("libtensorrt_rtx.so.1"));
    std::string complaint = finds(Product::kTensorRTRTX, fake_library("libtensorrt_rtx.so.1"));
    set_library_files("");
    return complaint + finds(Product::kTensorRTRTX, fake_library("rtx-1.5/libtensorrt_rtx.so.1"));
  });
}

// Silently taking another library would hide the mistake.
TEST_F(LibrarySearch, RefusesANamedFileThatCannotBeUsed) {
  in_own_process([] {
    setenv(
        kVariable,
        (fake_library("rtx-1.4/libtensorrt_rtx.so.1") + ":" + fake_library("libtensorrt_rtx.so.1")).c_str(),
        1);
    return fails(Product::kTensorRTRTX,
                 {"needs TensorRT-RTX 1.5 to 1.7", kVariable, "is TensorRT-RTX 1.4.0.76, which is too old"});
  });
  in_own_process([] {
    setenv(kVariable, "/nowhere/lib.so", 1);
    return fails(Product::kTensorRTRTX, {"/nowhere/lib.so: cannot open shared object file"});
  });
}

TEST_F(LibrarySearch, SaysThatTheNamedFileIsForOtherEngines) {
  in_own_process([] {
    setenv(kVariable, fake_library("libnvinfer.so.11").c_str(), 1);
    return fails(Product::kTensorRTRTX,
                 {"names TensorRT 11.4.0.10", "pip install", "torch-tensorrt-executorch-runtime[rtx]"});
  });
  in_own_process([] {
    setenv(kVariable, fake_library("libtensorrt_rtx.so.1").c_str(), 1);
    return fails(Product::kTensorRT, {"needs TensorRT 11", "names TensorRT-RTX 1.6.1.120", "[tensorrt]"});
  });
}

TEST_F(LibrarySearch, TakesTheCopyThatIsInTheProcess) {
  in_own_process([] {
    const std::string loaded = fake_library("rtx-1.5/libtensorrt_rtx.so.1");
    if (dlopen(loaded.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      return std::string(dlerror());
    }
    return finds(Product::kTensorRTRTX, loaded);
  });
}

TEST_F(LibrarySearch, LooksIntoTheWheelsOfAddedFolders) {
  const TemporaryFolder site;
  fs::create_directories(site.path() / "tensorrt_rtx_libs");
  fs::create_directories(site.path() / "tensorrt_lean_libs");
  fs::copy_file(fake_library("libtensorrt_rtx.so.1"), site.path() / "tensorrt_rtx_libs/libtensorrt_rtx.so.1");
  fs::copy_file(fake_library("libnvinfer_lean.so.11"),
                site.path() / "tensorrt_lean_libs/libnvinfer_lean.so.11");
  set_library_files("");
  unsetenv(kVariable);
  add_search_folder(site.path());
  const std::string complaint =
      finds(Product::kTensorRTRTX, site.path() / "tensorrt_rtx_libs/libtensorrt_rtx.so.1");
  EXPECT_EQ(complaint, "");
  EXPECT_EQ(finds(Product::kTensorRT, site.path() / "tensorrt_lean_libs/libnvinfer_lean.so.11"), "");
}

TEST_F(LibrarySearch, NamesEveryPlaceWhenThereIsNothing) {
  in_own_process([] {
    add_search_folder("/site/packages");
    return fails(Product::kTensorRTRTX,
                 {"This engine needs TensorRT-RTX 1.5 to 1.7, and no usable library was found",
                  "libtensorrt_rtx.so.1 in this process: not loaded in this process",
                  "/site/packages/tensorrt_rtx_libs/libtensorrt_rtx.so.1: no such file",
                  "libtensorrt_rtx.so.1: cannot open shared object file",
                  "or set TENSORRT_EXECUTORCH_LIBRARY to the library file"});
  });
}

TEST_F(LibrarySearch, TellsAboutOneFlavourWithoutLogging) {
  in_own_process([] {
    const CapturedLog log;
    std::string why;
    if (find_flavor(LibraryFlavor::kDispatch, why) != nullptr || why.empty() || !log.errors().empty()) {
      return "why: " + why + "\n" + log.text();
    }
    set_library_files(fake_library("libnvinfer_dispatch.so.11"));
    const Library* found = find_flavor(LibraryFlavor::kDispatch, why);
    return std::string(found != nullptr && found->version().minor == 4 ? "" : "not found: " + why);
  });
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
