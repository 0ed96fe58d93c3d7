// The layers may use what is below them and nothing else: python -> executorch -> engine -> {tensorrt, cuda,
// blob} -> log.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> layers = {
      {"log", {}},
      {"blob", {"log"}},
      {"cuda", {"log"}},
      {"tensorrt", {"log"}},
      {"engine", {"log", "blob", "cuda", "tensorrt"}},
      {"executorch", {"log", "blob", "cuda", "tensorrt", "engine"}},
      {"python", {"executorch"}}};
  return layers;
}

struct Line {
  std::string layer;  ///< folder of the file
  std::string file;   ///< relative to src
  std::string text;
};

/// Shows every line of every source file.
void for_each_line(const std::function<void(const Line&)>& visit) {
  const fs::path root = fs::path(SOURCE_DIR) / "src";
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const fs::path relative = fs::relative(entry.path(), root);
    if (!entry.is_regular_file() || (relative.extension() != ".h" && relative.extension() != ".cpp")) {
      continue;
    }
    ++files;
    std::ifstream stream(entry.path());
    for (std::string text; std::getline(stream, text);) {
      visit({relative.begin()->string(), relative.string(), text});
    }
  }
  ASSERT_GT(files, 20u) << "the sources were not found in " << root;
}

TEST(Layers, IncludeOnlyWhatIsBelowThem) {
  const std::regex own_include("#include \"([a-z]+)/.*\"");
  for_each_line([&](const Line& line) {
    std::smatch match;
    if (!std::regex_search(line.text, match, own_include) || match[1] == line.layer) {
      return;
    }
    ASSERT_EQ(allowed().count(line.layer), 1u) << line.file << " is in no known layer";
    EXPECT_EQ(allowed().at(line.layer).count(match[1]), 1u) << line.file << ": " << line.text;
  });
}

/// Lines that match `pattern` are only in files for which `is_home` holds.
void expect_only_in(const std::string& pattern, const std::function<bool(const Line&)>& is_home) {
  const std::regex regex(pattern);
  size_t found = 0;
  for_each_line([&](const Line& line) {
    if (std::regex_search(line.text, regex)) {
      ++found;
      EXPECT_TRUE(is_home(line)) << line.file << ": " << line.text;
    }
  });
  EXPECT_GT(found, 0u) << pattern << " matches nothing: is the test out of date?";
}

TEST(Layers, KeepTheJsonLibraryInOneFile) {
  expect_only_in("#include <nlohmann", [](const Line& line) { return line.file == "blob/metadata.cpp"; });
}

TEST(Layers, KeepSlotsInTheTensorRTLayer) {
  expect_only_in("slots::|slots\\.h", [](const Line& line) { return line.layer == "tensorrt"; });
}

TEST(Layers, KeepValuesOfExecuTorchAtTheDoor) {
  expect_only_in("\\bEValue\\b", [](const Line& line) { return line.layer == "executorch"; });
}

TEST(Layers, KeepWhatCudaReleasesInTheCudaLayer) {
  expect_only_in("\\bcuda(FreeHost|EventDestroy|StreamDestroy|SetDevice|GraphExecDestroy)\\(",
                 [](const Line& line) { return line.layer == "cuda"; });
}

}  // namespace
