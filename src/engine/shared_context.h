#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "engine/auxiliary_streams.h"
#include "tensorrt/objects.h"

namespace executorch::backends::tensorrt {

/// An execution context of one load, or of several that take turns in it.
///
/// It keeps the shapes and addresses that its last user gave it. Thread-safe on the host; on the device,
/// users on different streams must order their work themselves, as those of the shared scratch do.
class SharedContext {
 public:
  /// Sole use of the context on the host, while it is told things and queues work.
  class Turn {
   public:
    Context& operator*() const { return owner_.context_; }
    Context* operator->() const { return &owner_.context_; }

    /// Keeps the work that is queued next in the part of the GPU that `stream` is confined to.
    Error follow(StreamView stream, const std::string& label) const {
      return owner_.auxiliary_streams_.follow(stream, owner_.context_, label);
    }

    /// Whether somebody else had a turn in between, so that the context keeps nothing of this user.
    bool is_after_another() const { return is_after_another_; }

   private:
    friend class SharedContext;
    Turn(std::unique_lock<std::mutex> lock, SharedContext& owner, bool is_after_another)
        : lock_(std::move(lock)), owner_(owner), is_after_another_(is_after_another) {}

    std::unique_lock<std::mutex> lock_;
    SharedContext& owner_;
    bool is_after_another_;
  };

  /// `auxiliary_streams` is how many the engine uses.
  SharedContext(Context context, int32_t auxiliary_streams)
      : auxiliary_streams_(auxiliary_streams), context_(std::move(context)) {}

  Turn take(const void* user) {
    std::unique_lock<std::mutex> lock(mutex_);
    return {std::move(lock), *this, std::exchange(last_user_, user) != user};
  }

 private:
  std::mutex mutex_;
  AuxiliaryStreams auxiliary_streams_;  // outlives the context that uses it
  Context context_;
  const void* last_user_ = nullptr;
};

}  // namespace executorch::backends::tensorrt
