#include "engine_digest.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace executorch::backends::tensorrt {

namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
// More threads would wait for memory.
constexpr size_t kMostThreads = 8;

/// Threads that do the same work as the one that made them; none where the system gives none.
class Helpers {
 public:
  template <class Work>
  Helpers(size_t count, const Work& work) {
    threads_.reserve(count);
    try {
      while (threads_.size() < count) {
        threads_.emplace_back(work);
      }
    } catch (const std::system_error&) {  // the work is done by those that there are
    }
  }
  ~Helpers() {
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

Sha256Digest digest_of_engine(Bytes engine) {
  if (engine.size() <= kPieceBytes) {
    return sha256(engine);
  }
  std::vector<Sha256Digest> pieces((engine.size() + kPieceBytes - 1) / kPieceBytes);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) {
      const size_t offset = i * kPieceBytes;
      pieces[i] = sha256({engine.data() + offset, std::min(kPieceBytes, engine.size() - offset)});
    }
  };
  {
    const size_t processors = std::max(1u, std::thread::hardware_concurrency());
    const Helpers helpers(std::min({pieces.size(), processors, kMostThreads}) - 1, work);
    work();
  }
  return sha256({pieces.data()->data(), pieces.size() * sizeof(Sha256Digest)});
}

}  // namespace executorch::backends::tensorrt
