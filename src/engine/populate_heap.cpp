#include "engine/populate_heap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace executorch::backends::tensorrt {

namespace {

constexpr size_t kSmallest = size_t{1} << 20;  // below, there is nothing to gain
constexpr size_t kLargest = size_t{24} << 20;  // above 32 MB the C library never serves a block from the heap
constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14; older headers lack it

/// The compiler may not leave out an allocation whose address it cannot follow.
void* allocated(size_t size_bytes) {
  void* volatile block = std::malloc(size_bytes);
  return block;
}

/// Advises on the whole units of `unit` bytes inside a block.
void advise(void* block, size_t size_bytes, uintptr_t unit, int advice) {
  const auto begin = (reinterpret_cast<uintptr_t>(block) + unit - 1) / unit * unit;
  const auto end = (reinterpret_cast<uintptr_t>(block) + size_bytes) / unit * unit;
  if (begin < end) {
    madvise(reinterpret_cast<void*>(begin), end - begin, advice);
  }
}

}  // namespace

// glibc maps a block of this size on its own, and once such a block was freed it serves those that are not
// larger from the heap, from which it does not take them away when they are freed.
void populate_heap(size_t size_bytes) {
  if (size_bytes < kSmallest) {
    return;
  }
  size_bytes = std::min(size_bytes, kLargest) + kHugePage;
  std::free(allocated(size_bytes));
  const size_t from_heap = size_bytes - size_bytes / 64;
  if (void* block = allocated(from_heap)) {
    advise(block, from_heap, kHugePage, MADV_HUGEPAGE);
    advise(block, from_heap, static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), kPopulateWrite);
    std::free(block);
  }
}

}  // namespace executorch::backends::tensorrt
