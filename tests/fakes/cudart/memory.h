#pragma once

// The ledger of device, pinned and managed memory.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>

namespace fake_cuda {

enum class Kind { kDevice, kPinned, kManaged };

struct Block {
  Kind kind;
  size_t bytes;
  int device;
  bool live;
  unsigned long long id;  ///< of the allocation; never 0, and never another's
};

/// What an address is. `block` is null for ordinary host memory and for freed device memory with `freed` set.
struct Place {
  const Block* block = nullptr;
  size_t offset = 0;
  bool freed = false;
};

/// Guarded by `mutex()`. Freed device addresses are never handed out again, so a stale one is always
/// recognised.
class Memory {
 public:
  Memory();

  /// A new block, filled with 0xA5; null when the arena of addresses is used up or the size is 0.
  void* allocate(Kind kind, size_t bytes, int device);
  /// Frees the block that begins at `address`; false when there is none.
  bool free(void* address, Kind kind);

  /// Forgets a managed block, which stays allocated on the host; false when there is none.
  bool turn_into_host_memory(void* address);

  Place find(const void* address) const;
  /// Whether all bytes lie in one live block, or all of them in ordinary host memory.
  bool valid(const void* address, size_t bytes) const;
  /// Where the host can touch them.
  void* reach(const void* address) const;

  size_t live_blocks(Kind kind) const;
  size_t live_bytes(Kind kind, int device) const;

 private:
  bool in_arena(uintptr_t address) const;
  void* allocate_device(size_t bytes);

  std::map<uintptr_t, Block> blocks_;
  uintptr_t arena_ = 0;   ///< addresses of device memory, mapped without access
  uintptr_t shadow_ = 0;  ///< the same pages, readable and writable
  size_t used_ = 0;
  unsigned long long last_id_ = 0;
};

Memory& memory();

/// `CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr)`, of which there is the number of
/// the allocation.
int driver_pointer_attribute(void* data, int attribute, unsigned long long address);

}  // namespace fake_cuda
