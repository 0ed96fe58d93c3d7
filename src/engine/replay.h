#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/graph.h"
#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// Everything that a captured graph has baked in: addresses, shapes, and the SM partition of the stream.
using ReplayKey = std::vector<uint64_t>;

/// The captured graphs of one engine, and when to make one.
///
/// The first call with a key runs plainly, the second captures, later ones replay on the caller's own buffers
/// without a copy. A caller whose addresses change at every call never captures and pays for one comparison.
/// A key whose capture failed stays plain. Not thread-safe.
class Replay {
 public:
  enum class Step {
    kPlain,    ///< queue the work as it is
    kCapture,  ///< capture it and hand the graph to `keep`
    kReplay,   ///< launch `graph()`
  };

  /// What to do for a call with this key.
  Step next(const ReplayKey& key);

  /// The graph of the key that `next` answered with kReplay, valid until the next call of this object.
  const Graph& graph() const { return *graphs_[0].graph; }

  /// Keeps the graph of the key that `next` answered with kCapture; it took `size_bytes` of device memory.
  const Graph& keep(const ReplayKey& key, Graph graph, uint64_t size_bytes);

  /// Remembers that the key cannot be captured.
  void give_up(const ReplayKey& key);

  size_t graph_count() const;
  uint64_t graph_bytes() const;

 private:
  /// A camera's ring of buffers, or a pair of buffers that alternates, fits; more would only hold device
  /// memory.
  static constexpr size_t kGraphs = 8;
  static constexpr size_t kCandidates = 16;

  struct Entry {
    ReplayKey key;
    std::optional<Graph> graph;  ///< nothing: this key cannot be captured
    uint64_t size_bytes = 0;
  };

  bool is_candidate(const ReplayKey& key);
  void insert(Entry entry);

  std::vector<Entry> graphs_;  ///< most recently used first
  std::array<ReplayKey, kCandidates> candidates_;
  size_t next_candidate_ = 0;
};

}  // namespace executorch::backends::tensorrt
