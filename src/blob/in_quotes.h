#pragma once

#include <string>
#include <string_view>

namespace executorch::backends::tensorrt {

/// Puts untrusted text between quotes for a log line: printable ASCII only, at most 48 characters.
///
/// ExecuTorch cuts a log line at 256 bytes, so an endless tensor name would hide the sentence around it.
std::string in_quotes(std::string_view text);

}  // namespace executorch::backends::tensorrt
