#include "engine/kernel_bytes.h"

#include <algorithm>
#include <array>

#include "blob/sha256.h"

namespace executorch::backends::tensorrt {

namespace {

constexpr std::array<uint8_t, 8> kMagic = {'T', 'R', 'T', 'K', 'C', '0', '1', '\n'};
static_assert(kKernelSealBytes == kMagic.size() + sizeof(Sha256Digest));

}  // namespace

std::vector<uint8_t> seal_kernels(Bytes kernels) {
  const Sha256Digest digest = sha256(kernels);
  std::vector<uint8_t> sealed(kKernelSealBytes + kernels.size());
  auto next = std::copy(kMagic.begin(), kMagic.end(), sealed.begin());
  next = std::copy(digest.begin(), digest.end(), next);
  std::copy(kernels.begin(), kernels.end(), next);
  return sealed;
}

Bytes unseal_kernels(Bytes sealed) {
  if (sealed.size() <= kKernelSealBytes || !std::equal(kMagic.begin(), kMagic.end(), sealed.begin())) {
    return {};
  }
  const Bytes kernels(sealed.data() + kKernelSealBytes, sealed.size() - kKernelSealBytes);
  const Sha256Digest digest = sha256(kernels);
  return std::equal(digest.begin(), digest.end(), sealed.begin() + kMagic.size()) ? kernels : Bytes();
}

}  // namespace executorch::backends::tensorrt
