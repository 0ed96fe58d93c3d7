#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake_cuda {

namespace {

constexpr size_t kArenaBytes = size_t{64}
                               << 30;  // addresses only; pages come into being when they are written
constexpr size_t kPage = 4096;
constexpr int kPoison = 0xA5;

void* map_shared(int file, int protection) {
  void* address = mmap(nullptr, kArenaBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (address == MAP_FAILED) {
    std::perror("fake_cudart: mmap of the device arena");
    std::abort();
  }
  return address;
}

size_t round_up(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Memory::Memory() {
  const int file = memfd_create("fake_cuda_device_memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kArenaBytes) != 0) {
    std::perror("fake_cudart: memfd of the device arena");
    std::abort();
  }
  arena_ = reinterpret_cast<uintptr_t>(map_shared(file, PROT_NONE));
  shadow_ = reinterpret_cast<uintptr_t>(map_shared(file, PROT_READ | PROT_WRITE));
  close(file);
}

void* Memory::allocate_device(size_t bytes) {
  // A page of nothing follows each block, so that one block's end is never the next one's begin.
  const size_t taken = round_up(bytes) + kPage;
  if (bytes > kArenaBytes || taken > kArenaBytes - used_) {
    return nullptr;
  }
  void* address = reinterpret_cast<void*>(arena_ + used_);
  used_ += taken;
  return address;
}

void* Memory::allocate(Kind kind, size_t bytes, int device) {
  void* address = nullptr;
  if (kind == Kind::kDevice) {
    address = allocate_device(bytes);
  } else if (bytes <= kArenaBytes) {
    address = std::aligned_alloc(kPage, round_up(bytes));
  }
  if (address != nullptr) {
    blocks_[reinterpret_cast<uintptr_t>(address)] = {kind, bytes, device, true, ++last_id_};
    std::memset(reach(address), kPoison, bytes);
  }
  return address;
}

bool Memory::free(void* address, Kind kind) {
  const auto it = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (it == blocks_.end() || !it->second.live || it->second.kind != kind) {
    return false;
  }
  if (kind == Kind::kDevice) {
    it->second.live = false;
    madvise(reach(address), round_up(it->second.bytes), MADV_REMOVE);
  } else {
    blocks_.erase(it);
    std::free(address);
  }
  return true;
}

bool Memory::turn_into_host_memory(void* address) {
  const auto it = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (it == blocks_.end() || it->second.kind != Kind::kManaged) {
    return false;
  }
  blocks_.erase(it);
  return true;
}

bool Memory::in_arena(uintptr_t address) const { return address >= arena_ && address - arena_ < kArenaBytes; }

Place Memory::find(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto it = blocks_.upper_bound(address);
  Place place;
  place.freed = in_arena(address);
  if (it == blocks_.begin()) {
    return place;
  }
  --it;
  place.offset = address - it->first;
  if (it->second.live && place.offset < it->second.bytes) {
    place.block = &it->second;
    place.freed = false;
  }
  return place;
}

bool Memory::valid(const void* address, size_t bytes) const {
  const Place place = find(address);
  if (place.block == nullptr) {
    return !place.freed && (address != nullptr || bytes == 0);
  }
  return bytes <= place.block->bytes - place.offset;
}

void* Memory::reach(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return reinterpret_cast<void*>(in_arena(address) ? shadow_ + (address - arena_) : address);
}

size_t Memory::live_blocks(Kind kind) const {
  size_t count = 0;
  for (const auto& [address, block] : blocks_) {
    count += block.live && block.kind == kind ? 1 : 0;
  }
  return count;
}

size_t Memory::live_bytes(Kind kind, int device) const {
  size_t bytes = 0;
  for (const auto& [address, block] : blocks_) {
    bytes += block.live && block.kind == kind && (device < 0 || block.device == device) ? block.bytes : 0;
  }
  return bytes;
}

Memory& memory() {
  static auto* const instance = new Memory;
  return *instance;
}

}  // namespace fake_cuda
