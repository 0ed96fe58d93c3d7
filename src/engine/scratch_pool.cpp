#include "engine/scratch_pool.h"

#include <map>
#include <utility>

namespace executorch::backends::tensorrt {

namespace {

/// The pools that have users. Never destroyed, as programs may be freed while the process ends.
struct Pools {
  std::mutex mutex;
  std::map<int, std::weak_ptr<ScratchPool>> by_device;

  static Pools& instance() {
    static auto* const pools = new Pools;
    return *pools;
  }

  std::map<int, std::shared_ptr<ScratchPool>> in_use() {
    const std::lock_guard<std::mutex> lock(mutex);
    std::map<int, std::shared_ptr<ScratchPool>> pools;
    for (const auto& [device, kept] : by_device) {
      if (auto pool = kept.lock()) {
        pools[device] = std::move(pool);
      }
    }
    return pools;
  }
};

}  // namespace

std::shared_ptr<ScratchPool> ScratchPool::of(int device) {
  auto& pools = Pools::instance();
  const std::lock_guard<std::mutex> lock(pools.mutex);
  auto& kept = pools.by_device[device];
  auto pool = kept.lock();
  if (pool == nullptr) {
    pool = std::make_shared<ScratchPool>();
    kept = pool;
  }
  return pool;
}

uint64_t ScratchPool::bytes_on(int device) {
  uint64_t total = 0;
  for (const auto& [number, pool] : Pools::instance().in_use()) {
    total += number == device ? pool->size_bytes() : 0;
  }
  return total;
}

uint64_t ScratchPool::bytes_on_all() {
  uint64_t total = 0;
  for (const auto& [number, pool] : Pools::instance().in_use()) {
    total += pool->size_bytes();
  }
  return total;
}

uint64_t ScratchPool::size_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return block_.size_bytes();
}

Result<ScratchPool::Lease> ScratchPool::claim(size_t size_bytes, StreamView stream) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (last_use_ == nullptr) {
    auto event = Event::create();
    ET_CHECK_OK_OR_RETURN_ERROR(event.error());
    last_use_ = std::make_unique<Event>(std::move(*event));
  }
  if (size_bytes > block_.size_bytes()) {
    ET_CHECK_OK_OR_RETURN_ERROR(grow(size_bytes));
  }
  auto id = stream.id();
  ET_CHECK_OK_OR_RETURN_ERROR(id.error());
  if (in_use_ && *id != last_stream_) {
    ET_CHECK_OK_OR_RETURN_ERROR(last_use_->make_wait(stream));
  }
  return Lease(*this, std::move(lock), stream, *id);
}

Error ScratchPool::grow(size_t size_bytes) {
  if (in_use_) {
    ET_CHECK_OK_OR_RETURN_ERROR(last_use_->synchronize());
    in_use_ = false;
  }
  return block_.reserve(size_bytes);
}

ScratchPool::Lease::Lease(ScratchPool& pool, std::unique_lock<std::mutex> lock, StreamView stream,
                          unsigned long long stream_id)
    : pool_(&pool),
      lock_(std::move(lock)),
      stream_(stream),
      stream_id_(stream_id),
      data_(pool.block_.data()),
      size_bytes_(pool.block_.size_bytes()) {}

ScratchPool::Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      lock_(std::move(other.lock_)),
      stream_(other.stream_),
      stream_id_(other.stream_id_),
      data_(other.data_),
      size_bytes_(other.size_bytes_) {}

// What was queued before a failure may still use the block.
ScratchPool::Lease::~Lease() {
  if (pool_ != nullptr) {
    static_cast<void>(release());
  }
}

Error ScratchPool::Lease::release() {
  ScratchPool* pool = std::exchange(pool_, nullptr);
  pool->last_stream_ = stream_id_;
  pool->in_use_ = true;
  const Error error = pool->last_use_->record(stream_);
  lock_.unlock();
  return error;
}

}  // namespace executorch::backends::tensorrt
