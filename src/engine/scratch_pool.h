#pragma once

#include <executorch/runtime/core/result.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "cuda/buffer.h"
#include "cuda/event.h"
#include "cuda/stream.h"

namespace executorch::backends::tensorrt {

/// Activation scratch that the engines of one GPU take turns in: one block as large as the largest need.
///
/// Turns follow the order of streams: the next user on the same stream needs nothing, one on another stream
/// waits on the device for the last user's work. The block only grows, after the work that uses it has ended;
/// graphs that have the old address baked in are then no longer found under their key. Thread-safe.
class ScratchPool {
 public:
  /// One turn: the block is the holder's until `release`, or until the destructor when queueing failed.
  class Lease {
   public:
    ~Lease();
    Lease(Lease&& other) noexcept;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;

    void* data() const { return data_; }
    size_t size_bytes() const { return size_bytes_; }

    /// Ends the turn once the work is queued: later turns come after it.
    Error release();

   private:
    friend class ScratchPool;
    Lease(ScratchPool& pool, std::unique_lock<std::mutex> lock, StreamView stream,
          unsigned long long stream_id);

    ScratchPool* pool_;
    std::unique_lock<std::mutex> lock_;
    StreamView stream_;
    unsigned long long stream_id_;
    void* data_;
    size_t size_bytes_;
  };

  /// The pool of a GPU, which goes with its last user.
  static std::shared_ptr<ScratchPool> of(int device);

  /// Bytes that a GPU's pool holds now; 0 when nobody uses one.
  static uint64_t bytes_on(int device);

  /// Bytes that the pools of all GPUs hold now.
  static uint64_t bytes_on_all();

  /// Claims at least `size_bytes` for work on `stream`. The pool's GPU must be current.
  Result<Lease> claim(size_t size_bytes, StreamView stream);

 private:
  uint64_t size_bytes();
  Error grow(size_t size_bytes);

  std::mutex mutex_;
  DeviceBuffer block_;
  std::unique_ptr<Event> last_use_;
  bool in_use_ = false;
  unsigned long long last_stream_ = 0;
};

}  // namespace executorch::backends::tensorrt
