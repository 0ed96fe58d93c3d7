#include "engine/replay.h"

#include <algorithm>
#include <utility>

namespace executorch::backends::tensorrt {

Replay::Step Replay::next(const ReplayKey& key) {
  const auto found =
      std::find_if(graphs_.begin(), graphs_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found == graphs_.end()) {
    return is_candidate(key) ? Step::kCapture : Step::kPlain;
  }
  std::rotate(graphs_.begin(), found, found + 1);
  return graphs_[0].graph.has_value() ? Step::kReplay : Step::kPlain;
}

// Keys that were seen once stand apart from the graphs, so that a caller's changing addresses drive out no
// graph.
bool Replay::is_candidate(const ReplayKey& key) {
  if (std::find(candidates_.begin(), candidates_.end(), key) != candidates_.end()) {
    return true;
  }
  candidates_[next_candidate_] = key;
  next_candidate_ = (next_candidate_ + 1) % kCandidates;
  return false;
}

size_t Replay::graph_count() const {
  return static_cast<size_t>(std::count_if(graphs_.begin(), graphs_.end(),
                                           [](const Entry& entry) { return entry.graph.has_value(); }));
}

uint64_t Replay::graph_bytes() const {
  uint64_t total = 0;
  for (const Entry& entry : graphs_) {
    total += entry.size_bytes;
  }
  return total;
}

const Graph& Replay::keep(const ReplayKey& key, Graph graph, uint64_t size_bytes) {
  insert({key, std::move(graph), size_bytes});
  return *graphs_[0].graph;
}

void Replay::give_up(const ReplayKey& key) { insert({key, std::nullopt, 0}); }

void Replay::insert(Entry entry) {
  if (graphs_.size() == kGraphs) {
    graphs_.pop_back();
  }
  graphs_.insert(graphs_.begin(), std::move(entry));
}

}  // namespace executorch::backends::tensorrt
