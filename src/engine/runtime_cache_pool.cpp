#include "engine/runtime_cache_pool.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "cuda/device_scope.h"
#include "engine/kernel_cache.h"

namespace executorch::backends::tensorrt {

namespace {

struct Waiting {
  std::string name;
  int device;
  std::string folder;  ///< that its kernels lie in
  RuntimeCachePool::Entry entry;
};

/// Each with its own GPU current, where its kernels are loaded. Takes a while: not with the pool's lock held.
void destroy(std::list<Waiting> gone) {
  while (!gone.empty()) {
    const DeviceScope scope(gone.front().device);
    gone.pop_front();
  }
}

/// Never destroyed, as programs may be freed while the process ends.
struct Pool {
  std::mutex mutex;
  std::list<Waiting> waiting;  ///< the one that came last in front

  static Pool& instance() {
    static auto* const pool = new Pool;
    return *pool;
  }
};

std::string name_of(const KernelKey& key, int device) { return key.text() + " " + std::to_string(device); }

}  // namespace

std::optional<RuntimeCachePool::Entry> RuntimeCachePool::take(const KernelKey& key, int device) {
  auto& pool = Pool::instance();
  const std::lock_guard<std::mutex> lock(pool.mutex);
  const std::string name = name_of(key, device);
  const auto found = std::find_if(pool.waiting.begin(), pool.waiting.end(),
                                  [&](const Waiting& waiting) { return waiting.name == name; });
  if (found == pool.waiting.end()) {
    return std::nullopt;
  }
  Entry entry = std::move(found->entry);
  if (found->folder != KernelCache::folder()) {
    entry.kept_bytes = 0;
  }
  pool.waiting.erase(found);
  return entry;
}

void RuntimeCachePool::give_back(const KernelKey& key, int device, Entry entry) {
  std::list<Waiting> gone;
  {
    auto& pool = Pool::instance();
    const std::lock_guard<std::mutex> lock(pool.mutex);
    pool.waiting.push_front({name_of(key, device), device, KernelCache::folder(), std::move(entry)});
    if (pool.waiting.size() > kLimit) {
      gone.splice(gone.begin(), pool.waiting, std::prev(pool.waiting.end()));
    }
  }
  destroy(std::move(gone));
}

void RuntimeCachePool::clear() {
  std::list<Waiting> gone;
  {
    auto& pool = Pool::instance();
    const std::lock_guard<std::mutex> lock(pool.mutex);
    gone.swap(pool.waiting);
  }
  destroy(std::move(gone));
}

}  // namespace executorch::backends::tensorrt
