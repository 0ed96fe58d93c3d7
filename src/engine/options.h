#pragma once

#include <executorch/runtime/backend/backend_init_context.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/result.h>

#include <cstdint>
#include <optional>

namespace executorch::backends::tensorrt {

using runtime::Error;
using runtime::Result;

/// What one load of one engine was asked for, by the file (compile specs) and by the program that loads it
/// (load-time backend options).
struct LoadOptions {
  /// Bytes of weights to keep on the device; nothing means TensorRT's own choice.
  std::optional<int64_t> weight_streaming_budget;
  /// Whether the engine's work is to be replayed as a CUDA graph; nothing means that nobody asked.
  std::optional<bool> use_cuda_graphs;
};

/// Reads both sources. A load-time option wins over the file's; unknown keys are left to other readers.
///
/// Returns `InvalidProgram` for a malformed compile spec or budget, `InvalidArgument` for a load-time option
/// of the wrong type, after one sentence. Source of keys and values: docs/format.md, "Compile specs".
Result<LoadOptions> read_load_options(runtime::ArrayRef<runtime::CompileSpec> compile_specs,
                                      runtime::Span<const runtime::BackendOption> load_options);

/// Sets options of the whole process: all of them, or none when one is wrong.
///
/// `tensorrt_library` (string): library files to use, separated by ':'; "" goes back to the search.
Error set_process_options(runtime::Span<runtime::BackendOption> options);

/// Fills in the values of process options by their keys.
Error get_process_options(runtime::Span<runtime::BackendOption> options);

}  // namespace executorch::backends::tensorrt
