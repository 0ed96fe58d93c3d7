#include "engine/options.h"

#include <charconv>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

#include "blob/in_quotes.h"
#include "engine/kernel_cache.h"
#include "engine/stats_report.h"
#include "log/log.h"
#include "tensorrt/library_search.h"

namespace executorch::backends::tensorrt {

namespace {

using runtime::BackendOption;
using runtime::CompileSpec;
using Text = std::array<char, runtime::kMaxOptionValueLength>;

constexpr std::string_view kBudget = "weight_streaming_budget";
constexpr std::string_view kGraphs = "use_cuda_graphs";
constexpr std::string_view kScratch = "use_shared_activation_scratch";
constexpr std::string_view kInOrder = "results_in_stream_order";
constexpr std::string_view kSharedEngines = "use_shared_engines";
constexpr std::string_view kLibrary = "tensorrt_library";
constexpr std::string_view kMemoryBudget = "device_memory_budget";
constexpr std::string_view kCacheFolder = "runtime_cache_folder";
constexpr std::string_view kStats = "stats.";

std::string_view text_of(const Text& text) { return {text.data(), strnlen(text.data(), text.size())}; }
std::string_view key_of(const BackendOption& option) {
  return {option.key, strnlen(option.key, sizeof(option.key))};
}

/// The process's wishes; nothing where nobody spoke.
struct ProcessOptions {
  std::mutex mutex;
  std::optional<bool> use_cuda_graphs;
  std::optional<bool> use_shared_activation_scratch;
  std::optional<int64_t> device_memory_budget;

  static ProcessOptions& instance() {
    static auto* const options = new ProcessOptions;
    return *options;
  }
};

/// What one source asks for.
struct Wishes {
  std::optional<int64_t> weight_streaming_budget;
  bool budget_is_text = false;  ///< a text wins over a number, which has only 32 bits
  std::optional<bool> use_cuda_graphs;
  std::optional<bool> use_shared_activation_scratch;
  std::optional<bool> use_shared_engines;
  std::optional<bool> results_in_stream_order;
};

std::optional<bool>* switch_named(std::string_view key, Wishes& wishes) {
  return key == kGraphs          ? &wishes.use_cuda_graphs
         : key == kScratch       ? &wishes.use_shared_activation_scratch
         : key == kSharedEngines ? &wishes.use_shared_engines
                                 : nullptr;
}

/// Decimal digits only, below 2^63.
std::optional<int64_t> parse_budget(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && digits[0] != '-' ? std::optional<int64_t>(value) : std::nullopt;
}

Error refuse_budget(const char* source, std::string_view value) {
  DELEGATE_LOG(
      Error,
      "weight_streaming_budget %s is %s; it must be a number of bytes, 0 to 9223372036854775807, in decimal "
      "digits.",
      source, in_quotes(value).c_str());
  return Error::InvalidProgram;
}

Error refuse_spec(const CompileSpec& spec, const char* what) {
  DELEGATE_LOG(Error, "%s in the file is %s. Export the model again.", in_quotes(spec.key).c_str(), what);
  return Error::InvalidProgram;
}

Error read_compile_spec(const CompileSpec& spec, Wishes& wishes) {
  const std::string_view value(static_cast<const char*>(spec.value.buffer), spec.value.nbytes);
  if (spec.key == kBudget) {
    const auto budget = parse_budget(value);
    if (!budget.has_value()) {
      return refuse_budget("in the file", value);
    }
    if (wishes.weight_streaming_budget.has_value()) {
      return refuse_spec(spec, "given twice");
    }
    wishes.weight_streaming_budget = budget;
  } else if (spec.key == kGraphs || spec.key == kScratch || spec.key == kInOrder) {
    std::optional<bool>& wish =
        spec.key == kInOrder ? wishes.results_in_stream_order : *switch_named(spec.key, wishes);
    if (wish.has_value()) {
      return refuse_spec(spec, "given twice");
    }
    if (value != "0" && value != "1") {
      return refuse_spec(spec, (in_quotes(value) + "; it must be 0 or 1").c_str());
    }
    wish = value == "1";
  }
  return Error::Ok;
}

Error read_budget_option(const BackendOption& option, Wishes& wishes) {
  if (const auto* text = std::get_if<Text>(&option.value)) {
    if (text_of(*text).empty()) {
      DELEGATE_LOG(Info, "The load option weight_streaming_budget is empty and has no effect.");
      return Error::Ok;
    }
    const auto budget = parse_budget(text_of(*text));
    if (!budget.has_value()) {
      return refuse_budget("given at load", text_of(*text));
    }
    wishes.weight_streaming_budget = budget;
    wishes.budget_is_text = true;
    return Error::Ok;
  }
  const auto* number = std::get_if<int>(&option.value);
  if (number == nullptr || *number < 0) {
    return refuse_budget("given at load", number == nullptr ? "a bool" : std::to_string(*number));
  }
  if (!wishes.budget_is_text) {
    wishes.weight_streaming_budget = *number;
  }
  return Error::Ok;
}

Error read_load_option(const BackendOption& option, Wishes& wishes) {
  const std::string_view key = key_of(option);
  if (key == kBudget) {
    return read_budget_option(option, wishes);
  }
  if (std::optional<bool>* wish = switch_named(key, wishes)) {
    const auto* wanted = std::get_if<bool>(&option.value);
    if (wanted == nullptr) {
      DELEGATE_LOG(Error, "The load option %s must be a bool.", std::string(key).c_str());
      return Error::InvalidArgument;
    }
    *wish = *wanted;
  }
  return Error::Ok;
}

LoadOptions decide(const Wishes& file, const Wishes& load) {
  auto& process = ProcessOptions::instance();
  const std::lock_guard<std::mutex> lock(process.mutex);
  LoadOptions options;
  options.weight_streaming_budget =
      load.weight_streaming_budget.has_value() ? load.weight_streaming_budget : file.weight_streaming_budget;
  const bool vetoed = process.use_cuda_graphs.has_value() && !*process.use_cuda_graphs;
  const bool by_file = file.use_cuda_graphs.value_or(process.use_cuda_graphs.value_or(false));
  options.use_cuda_graphs = load.use_cuda_graphs.value_or(!vetoed && by_file);
  options.use_shared_activation_scratch = load.use_shared_activation_scratch.value_or(
      file.use_shared_activation_scratch.value_or(process.use_shared_activation_scratch.value_or(false)));
  options.results_in_stream_order = file.results_in_stream_order.value_or(false);
  options.use_shared_engines = load.use_shared_engines.value_or(true);
  options.device_memory_budget = process.device_memory_budget;
  return options;
}

/// The budget that an option gives: nothing for "", which takes it back. Whether it is one at all.
bool read_memory_budget(const BackendOption& option, std::optional<int64_t>& budget) {
  if (const auto* text = std::get_if<Text>(&option.value)) {
    budget = parse_budget(text_of(*text));
    return budget.has_value() || text_of(*text).empty();
  }
  const auto* number = std::get_if<int>(&option.value);
  budget = number == nullptr ? std::nullopt : std::optional<int64_t>(*number);
  return number != nullptr && *number >= 0;
}

Error check_process_option(const BackendOption& option) {
  const std::string key(key_of(option));
  if (key == kMemoryBudget) {
    std::optional<int64_t> budget;
    if (!read_memory_budget(option, budget)) {
      DELEGATE_LOG(Error,
                   "The option device_memory_budget must be a number of bytes: decimal digits, an int, or "
                   "\"\" for none.");
      return Error::InvalidArgument;
    }
    return Error::Ok;
  }
  if (key == kLibrary || key == kCacheFolder) {
    if (!std::holds_alternative<Text>(option.value)) {
      DELEGATE_LOG(Error, "The option %s must be a string.", key.c_str());
      return Error::InvalidArgument;
    }
    return Error::Ok;
  }
  if (key == kGraphs || key == kScratch) {
    if (!std::holds_alternative<bool>(option.value)) {
      DELEGATE_LOG(Error, "The option %s must be a bool.", key.c_str());
      return Error::InvalidArgument;
    }
    return Error::Ok;
  }
  if (key == kBudget || key == kSharedEngines) {
    DELEGATE_LOG(Error,
                 "The option %s belongs to one load, not to the process: give it to Module::load or "
                 "Program::load_method.",
                 key.c_str());
    return Error::InvalidArgument;
  }
  DELEGATE_LOG(Error,
               "TensorRTBackend has no option %s. The options of the process are: tensorrt_library, "
               "runtime_cache_folder, "
               "use_cuda_graphs, use_shared_activation_scratch, device_memory_budget.",
               in_quotes(key).c_str());
  return Error::InvalidArgument;
}

void set_process_option(const BackendOption& option) {
  const std::string_view key = key_of(option);
  if (key == kLibrary) {
    set_library_files(std::string(text_of(std::get<Text>(option.value))));
  } else if (key == kCacheFolder) {
    KernelCache::set_folder(std::string(text_of(std::get<Text>(option.value))));
  } else {
    auto& process = ProcessOptions::instance();
    const std::lock_guard<std::mutex> lock(process.mutex);
    if (key == kMemoryBudget) {
      read_memory_budget(option, process.device_memory_budget);
      return;
    }
    (key == kGraphs ? process.use_cuda_graphs : process.use_shared_activation_scratch) =
        std::get<bool>(option.value);
  }
}

runtime::OptionValue text_value(const std::string& text) {
  Text value{};
  text.copy(value.data(), value.size() - 1);
  return value;
}

bool get_process_option(BackendOption& option) {
  const std::string_view key = key_of(option);
  auto& process = ProcessOptions::instance();
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (key == kLibrary) {
    option.value = text_value(library_files());
  } else if (key == kCacheFolder) {
    option.value = text_value(KernelCache::folder());
  } else if (key == kMemoryBudget) {
    option.value = text_value(
        process.device_memory_budget.has_value() ? std::to_string(*process.device_memory_budget) : "");
  } else if (key == kGraphs) {
    option.value = process.use_cuda_graphs.value_or(false);
  } else if (key == kScratch) {
    option.value = process.use_shared_activation_scratch.value_or(false);
  } else {
    return false;
  }
  return true;
}

/// Numbers of the process may not fit in an `int`, the only integer that an option can be.
bool get_stat(BackendOption& option) {
  const std::string_view key = key_of(option);
  if (key.substr(0, kStats.size()) != kStats) {
    return false;
  }
  const auto total = total_of(key.substr(kStats.size()));
  if (total.has_value()) {
    option.value = text_value(std::to_string(*total));
  }
  return total.has_value();
}

}  // namespace

Result<LoadOptions> read_load_options(runtime::ArrayRef<CompileSpec> compile_specs,
                                      runtime::Span<const BackendOption> load_options) {
  Wishes file;
  for (const CompileSpec& spec : compile_specs) {
    ET_CHECK_OK_OR_RETURN_ERROR(read_compile_spec(spec, file));
  }
  Wishes load;  // of two options with one key the last wins
  for (const BackendOption& option : load_options) {
    ET_CHECK_OK_OR_RETURN_ERROR(read_load_option(option, load));
  }
  return decide(file, load);
}

Error set_process_options(runtime::Span<BackendOption> options) {
  for (const BackendOption& option : options) {
    ET_CHECK_OK_OR_RETURN_ERROR(check_process_option(option));
  }
  for (const BackendOption& option : options) {
    set_process_option(option);
  }
  return Error::Ok;
}

Error get_process_options(runtime::Span<BackendOption> options) {
  for (BackendOption& option : options) {
    if (!get_process_option(option) && !get_stat(option)) {
      return check_process_option(option);
    }
  }
  return Error::Ok;
}

}  // namespace executorch::backends::tensorrt
