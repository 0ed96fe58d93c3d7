#pragma once

#include <executorch/runtime/core/result.h>
#include <executorch/runtime/core/span.h>

#include <memory>
#include <string>
#include <vector>

#include "cuda/buffer.h"
#include "cuda/graph.h"
#include "cuda/stream.h"
#include "engine/engine.h"

namespace executorch::backends::tensorrt {

/// Engines with nothing around them, one after the other on a stream: what their work takes by itself, for
/// comparison with a program's calls.
///
/// Each is a second context of a loaded engine, so weights and kernels are the same, with buffers of its own
/// on the device and the shapes of the loaded engine's last call. Inputs of floating point hold numbers
/// between -1 and 1, others zeros. Not thread-safe.
class BareEngines {
 public:
  /// How each engine's work gets onto the stream.
  enum class Launch {
    kEnqueue,  ///< kernel by kernel
    kGraph,    ///< as a CUDA graph, one for each engine
  };

  /// Makes contexts of the engines with these numbers, counted in the order of loading, to run in this order;
  /// an engine that a call of the program runs twice is there twice.
  ///
  /// Errors: `InvalidArgument` no number, a number of no engine, engines of several GPUs;
  /// `InvalidState` an engine that was not called yet; and what creating contexts and buffers gives.
  static Result<std::unique_ptr<BareEngines>> of(Span<const size_t> numbers);

  ~BareEngines();
  BareEngines(const BareEngines&) = delete;
  BareEngines& operator=(const BareEngines&) = delete;

  /// Why there are no graphs: `Launch::kGraph` is then `NotSupported`. "" when there are.
  const std::string& no_graphs_because() const { return no_graphs_because_; }

  /// Runs all engines and waits, for each element of `microseconds`.
  Error latencies(Launch launch, Span<double> microseconds);

  /// Microseconds of `calls` runs of all engines with one wait behind them.
  Result<double> total(Launch launch, size_t calls);

 private:
  /// One engine that can run; the context goes before the engine.
  struct Twin {
    std::string label;
    std::shared_ptr<SharedEngine> engine;
    Context context;
    std::vector<DeviceBuffer> buffers;
  };

  BareEngines(int device, Stream stream) : device_(device), stream_(std::move(stream)) {}
  Error add(const LoadedEngine::LastCall& call);
  Error bind(Twin& twin, const LoadedEngine::LastCall& call);
  Error capture();
  Error check_launch(Launch launch) const;
  Error queue(Launch launch);

  const int device_;
  Stream stream_;
  std::vector<Twin> twins_;
  std::vector<size_t> order_;  ///< of `twins_`
  std::vector<Graph> graphs_;  ///< one for each of `twins_`, or none
  std::string no_graphs_because_;
};

}  // namespace executorch::backends::tensorrt
