// The command line of cpp_runner.
#pragma once

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "raw_tensor.h"

constexpr const char* kUsage =
    "usage: cpp_runner MODEL.pte INPUT.bin... [--method NAME] [--shape 2,64,256]... [--repeat N] [--output "
    "PREFIX]";

struct Options {
  std::vector<std::string> files;
  std::vector<Shape> shapes;  // of the inputs in order; the method's largest where none is given
  std::string method = "forward", output;
  int repeat = 1;
};

inline int parse_number(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) {
    throw std::runtime_error("\"" + text + "\" is no whole number. " + kUsage);
  }
  return number;
}

inline Shape parse_shape(const std::string& text) {
  Shape shape;
  std::stringstream sizes(text);
  for (std::string size; std::getline(sizes, size, ',');) shape.push_back(parse_number(size));
  return shape;
}

inline Options parse(const std::vector<std::string>& words) {
  Options options;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (word->rfind("--", 0) != 0) {
      options.files.push_back(*word);
      continue;
    }
    const std::string name = *word;
    if (++word == words.end()) throw std::runtime_error(name + " needs a value. " + kUsage);
    if (name == "--method")
      options.method = *word;
    else if (name == "--shape")
      options.shapes.push_back(parse_shape(*word));
    else if (name == "--repeat")
      options.repeat = std::max(1, parse_number(*word));
    else if (name == "--output")
      options.output = *word;
    else
      throw std::runtime_error("Unknown option " + name + ". " + kUsage);
  }
  if (options.files.empty()) throw std::runtime_error(kUsage);
  if (!std::filesystem::exists(options.files[0]))
    throw std::runtime_error("There is no file " + options.files[0] + ".");
  return options;
}
