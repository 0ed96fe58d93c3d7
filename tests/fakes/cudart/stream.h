#pragma once

// Streams, the points that work waits for, events and captured graphs.

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "control.h"

namespace fake_cuda {

struct Stream;

/// A moment in a stream: the first `sequence` pieces of its work are done.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t sequence = 0;
};

struct Work {
  std::vector<Point> after;
  std::function<cudaError_t()> run;  ///< without the lock; empty for a mere wait
};

/// What a capture records. Order of recording is a valid order of execution.
struct Graph {
  std::vector<std::function<cudaError_t()>> nodes;
};

struct Capture {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id owner;
  bool invalidated = false;
  std::vector<std::weak_ptr<Stream>> members;  ///< the first is the origin
  std::set<const Stream*> unjoined;            ///< members whose work the origin does not wait for yet
};

struct Stream : std::enable_shared_from_this<Stream> {
  Stream(int device, bool blocking) : device(device), blocking(blocking) {}

  const int device;
  const bool blocking;            ///< ordered with the legacy stream
  const uint64_t id = next_id();  ///< of no other stream, ever
  std::deque<Work> queue;
  uint64_t queued = 0;
  uint64_t done = 0;
  bool running = false;
  cudaError_t error = cudaSuccess;  ///< of work that failed; the next wait reports it
  std::shared_ptr<Capture> capture;
  void* green_context = nullptr;
  bool is_detached = false;  ///< its green context is destroyed

 private:
  static uint64_t next_id() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }
};

struct Event {
  int device;
  bool recorded = false;
  Point point;
  std::shared_ptr<Capture> capture;  ///< set when recorded in a capturing stream, which is `point.stream`
};

struct GraphExec {
  std::shared_ptr<Graph> graph;
  int device;
};

/// Live handles. Guarded by `mutex()`.
struct Handles {
  std::set<std::shared_ptr<Stream>> streams;  ///< created by the user and not destroyed
  std::vector<std::shared_ptr<Stream>> all;   ///< every stream that may still have work
  std::map<cudaEvent_t, std::unique_ptr<Event>> events;
  std::map<cudaGraph_t, std::shared_ptr<Graph>> graphs;
  std::map<cudaGraphExec_t, GraphExec> executables;
  std::map<void*, unsigned long long> green_contexts;  ///< ids
};

Handles& handles();

/// The stream behind a handle: legacy, per-thread or created; null, and a violation, for a handle that is
/// none.
std::shared_ptr<Stream> stream_of(cudaStream_t handle);
bool is_legacy(cudaStream_t handle);

/// Appends work, ordered with the legacy stream where CUDA does so, or records it into the capture.
/// cudaErrorStreamCaptureImplicit for the legacy stream while a stream that is ordered with it is being
/// captured.
cudaError_t submit(const std::shared_ptr<Stream>& stream, Work work);

/// Runs work until the point is reached.
void wait_for(Lock& lock, const Point& point);
/// Runs everything on a stream; returns what failed since the last wait. Counts as a wait of the host.
cudaError_t wait_for_stream(Lock& lock, const std::shared_ptr<Stream>& stream);
cudaError_t wait_for_device(Lock& lock, int device);
/// Runs one piece of work, if there is any. True when the point is reached.
bool advance(Lock& lock, const Point& point);

inline Point end_of(const std::shared_ptr<Stream>& stream) { return {stream, stream->queued}; }

/// cudaErrorStreamCaptureUnsupported, and the capture is spoilt, for a call that no capturing stream allows.
cudaError_t refuse_in_capture(const std::shared_ptr<Stream>& stream);

/// The same for calls such as cudaMalloc: forbidden to the capturing thread unless its mode is relaxed, and
/// to every thread while one captures in global mode.
cudaError_t refuse_unsafe_call();

}  // namespace fake_cuda
