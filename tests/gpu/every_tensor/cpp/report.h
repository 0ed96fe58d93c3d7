// What the cases found, one JSON object per line as soon as it is known: a crash loses nothing that came
// before.
#pragma once

#include <cstdio>
#include <string>

namespace report {

/// `text` with what JSON does not allow inside quotes replaced.
inline std::string plain(std::string text) {
  for (char& c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) c = '\'';
  }
  return text;
}

/// A measured value and the limit that it must not exceed, or must reach with `at_least`.
inline void check(const std::string& name, double value, double limit, const char* unit,
                  bool at_least = false) {
  std::printf("{\"check\": \"%s\", \"value\": %.9g, \"limit\": %.9g, \"unit\": \"%s\", \"at_least\": %s}\n",
              name.c_str(), value, limit, unit, at_least ? "true" : "false");
  std::fflush(stdout);
}

/// A value without a limit.
inline void note(const std::string& topic, const std::string& key, double value) {
  std::printf("{\"topic\": \"%s\", \"key\": \"%s\", \"value\": %.9g}\n", topic.c_str(), key.c_str(), value);
  std::fflush(stdout);
}

/// A case that could not be brought to its end.
inline void broken(const std::string& name, const std::string& reason) {
  std::printf("{\"broken\": \"%s\", \"reason\": \"%s\"}\n", name.c_str(), plain(reason).c_str());
  std::fflush(stdout);
}

}  // namespace report
