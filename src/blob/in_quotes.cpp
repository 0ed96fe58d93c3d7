#include "blob/in_quotes.h"

#include <cstddef>

namespace executorch::backends::tensorrt {

namespace {
constexpr size_t kMaxShown = 48;
}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, kMaxShown)) {
    result += c >= ' ' && c <= '~' ? c : '?';
  }
  result += text.size() > kMaxShown ? "...'" : "'";
  return result;
}

}  // namespace executorch::backends::tensorrt
