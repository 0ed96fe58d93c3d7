#include "engine/options.h"

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <variant>

#include "blob/in_quotes.h"
#include "log/log.h"
#include "tensorrt/library_search.h"

namespace executorch::backends::tensorrt {

namespace {

using runtime::BackendOption;
using runtime::CompileSpec;
using Text = std::array<char, runtime::kMaxOptionValueLength>;

constexpr std::string_view kBudget = "weight_streaming_budget";
constexpr std::string_view kGraphs = "use_cuda_graphs";
constexpr std::string_view kLibrary = "tensorrt_library";

std::string_view text_of(const Text& text) { return {text.data(), strnlen(text.data(), text.size())}; }
std::string_view key_of(const BackendOption& option) {
  return {option.key, strnlen(option.key, sizeof(option.key))};
}

/// Decimal digits only, below 2^63.
std::optional<int64_t> parse_budget(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && digits[0] != '-' ? std::optional<int64_t>(value) : std::nullopt;
}

Error refuse_budget(const char* source, std::string_view value) {
  DELEGATE_LOG(Error,
               "weight_streaming_budget %s is %s; it must be a number of bytes, 0 to 9223372036854775807, in "
               "decimal digits.",
               source, in_quotes(value).c_str());
  return Error::InvalidProgram;
}

Error read_compile_spec(const CompileSpec& spec, LoadOptions& options) {
  const std::string_view value(static_cast<const char*>(spec.value.buffer), spec.value.nbytes);
  if (spec.key == kBudget) {
    const auto budget = parse_budget(value);
    if (!budget.has_value()) {
      return refuse_budget("in the file", value);
    }
    if (options.weight_streaming_budget.has_value()) {
      DELEGATE_LOG(Error, "The file gives weight_streaming_budget twice; export it again with one value.");
      return Error::InvalidProgram;
    }
    options.weight_streaming_budget = budget;
  } else if (spec.key == kGraphs) {
    if ((value != "0" && value != "1") || options.use_cuda_graphs.has_value()) {
      DELEGATE_LOG(Error,
                   "use_cuda_graphs in the file is %s; it must be 0 or 1 and stand there once. Export the "
                   "model again.",
                   options.use_cuda_graphs.has_value() ? "given twice" : in_quotes(value).c_str());
      return Error::InvalidProgram;
    }
    options.use_cuda_graphs = value == "1";
  }
  return Error::Ok;
}

Error read_budget_option(const BackendOption& option, LoadOptions& options) {
  if (const auto* text = std::get_if<Text>(&option.value)) {
    if (text_of(*text).empty()) {
      DELEGATE_LOG(Info, "The load option weight_streaming_budget is empty and has no effect.");
      return Error::Ok;
    }
    const auto budget = parse_budget(text_of(*text));
    if (!budget.has_value()) {
      return refuse_budget("given at load", text_of(*text));
    }
    options.weight_streaming_budget = budget;
    return Error::Ok;
  }
  const auto* number = std::get_if<int>(&option.value);
  if (number == nullptr || *number < 0) {
    return refuse_budget("given at load", number == nullptr ? "a bool" : std::to_string(*number));
  }
  options.weight_streaming_budget = *number;
  return Error::Ok;
}

Error read_load_option(const BackendOption& option, LoadOptions& options) {
  if (key_of(option) == kBudget) {
    return read_budget_option(option, options);
  }
  if (key_of(option) == kGraphs) {
    const auto* wanted = std::get_if<bool>(&option.value);
    if (wanted == nullptr) {
      DELEGATE_LOG(Error, "The load option use_cuda_graphs must be a bool.");
      return Error::InvalidArgument;
    }
    options.use_cuda_graphs = *wanted;
  }
  return Error::Ok;
}

Error check_process_option(const BackendOption& option) {
  if (key_of(option) == kLibrary) {
    if (!std::holds_alternative<Text>(option.value)) {
      DELEGATE_LOG(Error, "The option tensorrt_library must be a string: library files, separated by ':'.");
      return Error::InvalidArgument;
    }
    return Error::Ok;
  }
  if (key_of(option) == kBudget || key_of(option) == kGraphs) {
    DELEGATE_LOG(Error,
                 "The option %s belongs to one load, not to the process: give it to Module::load or "
                 "Program::load_method.",
                 std::string(key_of(option)).c_str());
    return Error::InvalidArgument;
  }
  DELEGATE_LOG(Error, "TensorRTBackend has no option %s. The options of the process are: tensorrt_library.",
               in_quotes(key_of(option)).c_str());
  return Error::InvalidArgument;
}

}  // namespace

Result<LoadOptions> read_load_options(runtime::ArrayRef<CompileSpec> compile_specs,
                                      runtime::Span<const BackendOption> load_options) {
  LoadOptions options;
  for (const CompileSpec& spec : compile_specs) {
    ET_CHECK_OK_OR_RETURN_ERROR(read_compile_spec(spec, options));
  }
  // The last load-time option of a key wins, and a string budget wins over an int one.
  for (const BackendOption& option : load_options) {
    ET_CHECK_OK_OR_RETURN_ERROR(read_load_option(option, options));
  }
  return options;
}

Error set_process_options(runtime::Span<BackendOption> options) {
  for (const BackendOption& option : options) {
    ET_CHECK_OK_OR_RETURN_ERROR(check_process_option(option));
  }
  for (const BackendOption& option : options) {
    set_library_files(std::string(text_of(std::get<Text>(option.value))));
  }
  return Error::Ok;
}

Error get_process_options(runtime::Span<BackendOption> options) {
  for (BackendOption& option : options) {
    if (key_of(option) != kLibrary) {
      return check_process_option(option);
    }
    const std::string files = library_files();
    Text text{};
    files.copy(text.data(), text.size() - 1);
    option.value = text;
  }
  return Error::Ok;
}

}  // namespace executorch::backends::tensorrt
