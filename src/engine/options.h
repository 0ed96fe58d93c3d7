#pragma once

#include <executorch/runtime/backend/backend_init_context.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/result.h>

#include <cstdint>
#include <optional>

namespace executorch::backends::tensorrt {

using runtime::Error;
using runtime::Result;

/// What one load of one engine asks for, once every source was heard.
struct LoadOptions {
  /// Bytes of weights to keep on the device; nothing means TensorRT's own choice.
  std::optional<int64_t> weight_streaming_budget;
  /// Whether the engine's work is replayed as a CUDA graph.
  bool use_cuda_graphs = false;
  /// Whether the engine takes turns in the GPU's shared scratch instead of holding its own.
  bool use_shared_activation_scratch = false;
  /// Whether the program reads the results in the order of the stream only: by copies and other engines.
  bool results_in_stream_order = false;
  /// Whether loads of the same engine share its weights.
  bool use_shared_engines = true;
  /// Bytes that the engines of this process may hold on the GPU, this one included; nothing means all that
  /// there is.
  std::optional<uint64_t> device_memory_budget;
};

/// Reads the file's wishes (compile specs), those of the load (backend options given to `Module::load` or
/// `Program::load_method`) and the process's. Unknown compile specs and load options are left to other
/// readers.
///
/// `use_cuda_graphs`: load option, else a process-wide `false`, else compile spec, else process-wide `true`.
/// `use_shared_activation_scratch`: load option, else compile spec, else process option.
/// `use_shared_engines`: load option only. `results_in_stream_order`: compile spec only.
/// `weight_streaming_budget`: load option, else compile spec.
///
/// Returns `InvalidProgram` for a malformed compile spec or budget, `InvalidArgument` for a load-time option
/// of the wrong type, after one sentence. Source of keys and values: docs/format.md, "Compile specs".
Result<LoadOptions> read_load_options(runtime::ArrayRef<runtime::CompileSpec> compile_specs,
                                      runtime::Span<const runtime::BackendOption> load_options);

/// Sets options of the whole process, for loads to come: all of them, or none when one is wrong.
///
/// `use_cuda_graphs`, `use_shared_activation_scratch` (bool); `tensorrt_library` (string: library files to
/// use, separated by ':'; "" goes back to the search); `runtime_cache_folder` (string: a folder, "off", or ""
/// for the default).
Error set_process_options(runtime::Span<runtime::BackendOption> options);

/// Fills in the values of process options by their keys. `stats.<name>` gives a total of
/// engine/stats_report.h as a string of decimal digits.
Error get_process_options(runtime::Span<runtime::BackendOption> options);

}  // namespace executorch::backends::tensorrt
