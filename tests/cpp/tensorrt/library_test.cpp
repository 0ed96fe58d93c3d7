// Which library files are TensorRT, and which of those may be used.

#include "tensorrt/library.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/cpp/support/captured_log.h"
#include "tests/cpp/support/machine.h"

namespace executorch::backends::tensorrt::testing {
namespace {

struct Opened {
  std::unique_ptr<Library> library;
  Error error;
  std::string why;
};

Opened open(const std::string& path) {
  Opened opened;
  auto library = Library::open(path, /*only_if_loaded=*/false, opened.why);
  opened.error = library.error();
  if (library.ok()) {
    opened.library = std::move(*library);
  }
  return opened;
}

void expect_refused(const std::string& file, Error error, const std::string& why) {
  const std::string path = fake_library(file);
  const CapturedLog log;
  const Opened opened = open(path);
  EXPECT_EQ(opened.error, error);
  EXPECT_EQ(opened.why, path + why);
  EXPECT_TRUE(log.errors().empty()) << "a search goes on, so nothing is logged: " << log.text();
}

TEST(Library, KnowsEveryFlavour) {
  const std::pair<const char*, LibraryFlavor> files[] = {
      {"libtensorrt_rtx.so.1", LibraryFlavor::kRTX},
      {"rtx-1.5/libtensorrt_rtx.so.1", LibraryFlavor::kRTX},
      {"libnvinfer.so.11", LibraryFlavor::kFull},
      {"libnvinfer_lean.so.11", LibraryFlavor::kLean},
      {"libnvinfer_dispatch.so.11", LibraryFlavor::kDispatch}};
  for (const auto& [file, flavor] : files) {
    const Opened opened = open(fake_library(file));
    ASSERT_EQ(opened.error, Error::Ok) << opened.why;
    EXPECT_EQ(opened.library->flavor(), flavor) << file;
    EXPECT_EQ(opened.library->path(), fake_library(file));
  }
}

TEST(Library, StatesNameVersionAndFile) {
  EXPECT_EQ(open(fake_library("libtensorrt_rtx.so.1")).library->description(),
            "TensorRT-RTX 1.6.1.120 (" + fake_library("libtensorrt_rtx.so.1") + ")");
  EXPECT_EQ(open(fake_library("libnvinfer_lean.so.11")).library->description(),
            "TensorRT (lean runtime) 11.4.0.10 (" + fake_library("libnvinfer_lean.so.11") + ")");
}

TEST(Library, RefusesVersionsWithOtherInterfaces) {
  expect_refused("rtx-1.4/libtensorrt_rtx.so.1", Error::DelegateInvalidCompatibility,
                 " is TensorRT-RTX 1.4.0.76, which is too old; TensorRT-RTX 1.5 to 1.7 is needed");
  expect_refused(
      "rtx-1.9/libtensorrt_rtx.so.1", Error::DelegateInvalidCompatibility,
      " is TensorRT-RTX 1.9.0.1, which this delegate does not know; TensorRT-RTX 1.5 to 1.7 is needed");
  expect_refused("libnvinfer.so.10", Error::DelegateInvalidCompatibility,
                 " is TensorRT 10.16.0.72; TensorRT 11 is needed");
}

TEST(Library, AcceptsANewerTensorRT11WithARemark) {
  const CapturedLog log;
  const Opened opened = open(fake_library("tensorrt-11.9/libnvinfer.so.11"));
  EXPECT_EQ(opened.error, Error::Ok);
  EXPECT_TRUE(log.contains("is TensorRT 11.9.0.1, newer than 11.4")) << log.text();
}

TEST(Library, RefusesLibrariesThatDoNotStateOneVersion) {
  expect_refused("broken/no_version.so", Error::DelegateInvalidCompatibility,
                 " does not state its version; TensorRT 11 or TensorRT-RTX 1.5 to 1.7 is needed");
  expect_refused("broken/two_versions.so", Error::DelegateInvalidCompatibility,
                 " states two versions, 10602 and 1.6.1.120; reinstall TensorRT");
}

TEST(Library, RefusesOtherLibraries) {
  expect_refused("../cuda/libfake_cudart.so", Error::NotFound,
                 " is no TensorRT library: it has no function createInferRuntime_INTERNAL");
}

TEST(Library, SaysWhyAFileCannotBeOpened) {
  const Opened missing = open("/nowhere/libtensorrt_rtx.so.1");
  EXPECT_EQ(missing.error, Error::NotFound);
  EXPECT_NE(missing.why.find("/nowhere/libtensorrt_rtx.so.1: cannot open shared object file"),
            std::string::npos)
      << missing.why;
  const TemporaryFolder folder;
  const std::string text = folder.path() / "libtensorrt_rtx.so.1";
  std::ofstream(text) << "not a library";
  EXPECT_NE(open(text).why.find("file too short"), std::string::npos);
}

TEST(Library, KnowsItsOwnAddresses) {
  const Opened opened = open(fake_library("libtensorrt_rtx.so.1"));
  ASSERT_EQ(opened.error, Error::Ok);
  int local = 0;
  EXPECT_FALSE(opened.library->contains(&local));
  EXPECT_FALSE(opened.library->contains(nullptr));
}

}  // namespace
}  // namespace executorch::backends::tensorrt::testing
