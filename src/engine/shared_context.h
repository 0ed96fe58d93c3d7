#pragma once

#include <mutex>
#include <utility>

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
    Context& operator*() const { return context_; }
    Context* operator->() const { return &context_; }

    /// Whether somebody else had a turn in between, so that the context keeps nothing of this user.
    bool is_after_another() const { return is_after_another_; }

   private:
    friend class SharedContext;
    Turn(std::unique_lock<std::mutex> lock, Context& context, bool is_after_another)
        : lock_(std::move(lock)), context_(context), is_after_another_(is_after_another) {}

    std::unique_lock<std::mutex> lock_;
    Context& context_;
    bool is_after_another_;
  };

  explicit SharedContext(Context context) : context_(std::move(context)) {}

  Turn take(const void* user) {
    std::unique_lock<std::mutex> lock(mutex_);
    return {std::move(lock), context_, std::exchange(last_user_, user) != user};
  }

 private:
  std::mutex mutex_;
  Context context_;
  const void* last_user_ = nullptr;
};

}  // namespace executorch::backends::tensorrt
