#include "cuda/host_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/buffer.h"
#include "cuda/copy.h"
#include "cuda/event.h"
#include "cuda/pending_work.h"
#include "cuda/pointer.h"

namespace executorch::backends::tensorrt {

namespace {

// Below this the driver's own way is as fast: it puts small copies into the command itself.
constexpr size_t kSmallestStaged = size_t{64} << 10;
// Small pieces let the bus start early; larger ones make the calls for each piece count less.
constexpr size_t kSmallestPiece = size_t{128} << 10;
constexpr size_t kLargestPiece = size_t{1} << 20;
constexpr size_t kSlots = 4;

size_t piece_bytes(size_t size_bytes) {
  return std::clamp(size_bytes / kSlots, kSmallestPiece, kLargestPiece);
}

/// Page-locked memory for a few pieces of a copy. One copy at a time uses a ring; what an earlier one queued
/// may still be on its way, on whatever stream.
class PinnedRing {
 public:
  static Result<std::unique_ptr<PinnedRing>> create() {
    auto ring = std::make_unique<PinnedRing>();
    for (Slot& slot : ring->slots_) {
      auto passed = Event::create();
      ET_CHECK_OK_OR_RETURN_ERROR(passed.error());
      slot.passed.emplace(std::move(*passed));
    }
    return ring;
  }

  Error write(char* target, const char* source, size_t size_bytes, StreamView stream) {
    const size_t piece = piece_bytes(size_bytes);
    for (size_t done = 0; done < size_bytes; done += piece) {
      const size_t length = std::min(piece, size_bytes - done);
      Slot& slot = slots_[next_++ % kSlots];
      ET_CHECK_OK_OR_RETURN_ERROR(slot.make_ready(piece));
      std::memcpy(slot.memory.data(), source + done, length);
      ET_CHECK_OK_OR_RETURN_ERROR(copy_async(target + done, slot.memory.data(), length, stream));
      ET_CHECK_OK_OR_RETURN_ERROR(slot.passed->record(stream));
    }
    return Error::Ok;
  }

  Error read(char* target, const char* source, size_t size_bytes, StreamView stream) {
    const size_t piece = piece_bytes(size_bytes);
    size_t queued = 0;
    for (size_t done = 0; done < size_bytes; done += piece) {
      for (; queued < size_bytes && queued < done + kSlots * piece; queued += piece) {
        Slot& slot = slots_[queued / piece % kSlots];
        ET_CHECK_OK_OR_RETURN_ERROR(slot.make_ready(piece));
        const size_t length = std::min(piece, size_bytes - queued);
        ET_CHECK_OK_OR_RETURN_ERROR(copy_async(slot.memory.data(), source + queued, length, stream));
        ET_CHECK_OK_OR_RETURN_ERROR(slot.passed->record(stream));
      }
      Slot& slot = slots_[done / piece % kSlots];
      ET_CHECK_OK_OR_RETURN_ERROR(slot.passed->synchronize());
      std::memcpy(target + done, slot.memory.data(), std::min(piece, size_bytes - done));
    }
    return Error::Ok;
  }

 private:
  struct Slot {
    PinnedBuffer memory;
    std::optional<Event> passed;  ///< the bus has carried the last piece

    // What is on its way reads this memory.
    ~Slot() {
      if (passed.has_value()) {
        passed->synchronize_before_destruction();
      }
    }

    Error make_ready(size_t size_bytes) {
      ET_CHECK_OK_OR_RETURN_ERROR(passed->synchronize());
      return memory.reserve(size_bytes);
    }
  };

  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

/// The rings that no copy uses, by GPU: as many as there were copies at once. This is never destroyed, as
/// programs may run while the process ends.
class IdleRings {
 public:
  static IdleRings& instance() {
    static auto* const rings = new IdleRings;
    return *rings;
  }

  Result<std::unique_ptr<PinnedRing>> take(int device) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      auto& idle = idle_[device];
      if (!idle.empty()) {
        auto ring = std::move(idle.back());
        idle.pop_back();
        return ring;
      }
    }
    return PinnedRing::create();
  }

  void give_back(int device, std::unique_ptr<PinnedRing> ring) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_[device].push_back(std::move(ring));
  }

  void clear() {
    std::map<int, std::vector<std::unique_ptr<PinnedRing>>> freed;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      freed.swap(idle_);
    }
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<PinnedRing>>> idle_;
};

/// Whether a copy from or to this host memory gains from page-locked memory in between. A capture of the
/// caller's is to hold the caller's own address.
Result<bool> is_worth_staging(const void* host, size_t size_bytes, StreamView stream) {
  if (size_bytes < kSmallestStaged) {
    return false;
  }
  auto info = describe_pointer(host);
  ET_CHECK_OK_OR_RETURN_ERROR(info.error());
  if (info->kind != MemoryKind::kPageable) {
    return false;
  }
  auto capturing = stream.is_capturing();
  ET_CHECK_OK_OR_RETURN_ERROR(capturing.error());
  return !*capturing;
}

/// Runs `copy` with a ring of its own. After a failure nothing of the copy is running any more, so
/// that the ring can serve another.
template <class Copy>
Error with_ring(int device, StreamView stream, Copy&& copy) {
  auto ring = IdleRings::instance().take(device);
  ET_CHECK_OK_OR_RETURN_ERROR(ring.error());
  {
    PendingWork pending(stream);
    ET_CHECK_OK_OR_RETURN_ERROR(copy(**ring));
    pending.release();
  }
  IdleRings::instance().give_back(device, std::move(*ring));
  return Error::Ok;
}

}  // namespace

Error copy_to_device(void* target, const void* source, size_t size_bytes, int device, StreamView stream) {
  auto staged = is_worth_staging(source, size_bytes, stream);
  ET_CHECK_OK_OR_RETURN_ERROR(staged.error());
  if (!*staged) {
    return copy_async(target, source, size_bytes, stream);
  }
  return with_ring(device, stream, [&](PinnedRing& ring) {
    return ring.write(static_cast<char*>(target), static_cast<const char*>(source), size_bytes, stream);
  });
}

Error copy_to_host(void* target, const void* source, size_t size_bytes, int device, StreamView stream) {
  auto staged = is_worth_staging(target, size_bytes, stream);
  ET_CHECK_OK_OR_RETURN_ERROR(staged.error());
  if (!*staged) {
    ET_CHECK_OK_OR_RETURN_ERROR(copy_async(target, source, size_bytes, stream));
    return stream.synchronize();
  }
  return with_ring(device, stream, [&](PinnedRing& ring) {
    return ring.read(static_cast<char*>(target), static_cast<const char*>(source), size_bytes, stream);
  });
}

void free_idle_copy_memory() { IdleRings::instance().clear(); }

}  // namespace executorch::backends::tensorrt
