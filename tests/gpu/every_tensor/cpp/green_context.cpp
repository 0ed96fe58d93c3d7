// Streams of a green context: work stays on its few multiprocessors, replayed or not.
#include <cuda.h>
#include <executorch/backends/tensorrt/caller_stream.h>

#include "cases.h"
#include "program.h"
#include "report.h"
#include "timing.h"

namespace cases {

namespace {

using executorch::backends::tensorrt::CallerStreamGuard;
using gpu::Memory;
using gpu::Where;

constexpr unsigned kMultiprocessors = 8;
constexpr int kRounds = 60;
constexpr double kSlower =
    1.5;  // on 8 of 132 multiprocessors; 2.4 times was measured for a far smaller engine

/// A function of the driver, which is not linked.
template <class Function>
Function* driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  gpu::check(cudaGetDriverEntryPointByVersion(name, &found, 12050, cudaEnableDefault, &result), name);
  if (result != cudaDriverEntryPointSuccess)
    throw std::runtime_error(std::string(name) + " is not in this driver");
  return reinterpret_cast<Function*>(found);
}

void check_driver(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(std::string(what) + " gave " + std::to_string(result));
}

/// Owns a green context of a few multiprocessors and one stream in it.
class GreenStream {
 public:
  GreenStream() {
    gpu::check(cudaFree(nullptr), "cudaFree");
    CUdevResource all{}, few{}, rest{};
    unsigned groups = 1;
    check_driver(driver<CUresult(CUdevice, CUdevResource*, CUdevResourceType)>("cuDeviceGetDevResource")(
                     0, &all, CU_DEV_RESOURCE_TYPE_SM),
                 "cuDeviceGetDevResource");
    check_driver(
        driver<CUresult(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*, unsigned, unsigned)>(
            "cuDevSmResourceSplitByCount")(&few, &groups, &all, &rest, 0, kMultiprocessors),
        "cuDevSmResourceSplitByCount");
    CUdevResourceDesc description = nullptr;
    check_driver(driver<CUresult(CUdevResourceDesc*, CUdevResource*, unsigned)>("cuDevResourceGenerateDesc")(
                     &description, &few, 1),
                 "cuDevResourceGenerateDesc");
    check_driver(driver<CUresult(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned)>("cuGreenCtxCreate")(
                     &context_, description, 0, CU_GREEN_CTX_DEFAULT_STREAM),
                 "cuGreenCtxCreate");
    check_driver(driver<CUresult(CUstream*, CUgreenCtx, unsigned, int)>("cuGreenCtxStreamCreate")(
                     &stream_, context_, CU_STREAM_NON_BLOCKING, 0),
                 "cuGreenCtxStreamCreate");
    report::note("green_context", "multiprocessors", few.sm.smCount);
    report::note("green_context", "multiprocessors_of_the_gpu", all.sm.smCount);
  }
  ~GreenStream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    driver<CUresult(CUgreenCtx)>("cuGreenCtxDestroy")(context_);
  }
  GreenStream(const GreenStream&) = delete;
  GreenStream& operator=(const GreenStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  CUgreenCtx context_ = nullptr;
  CUstream stream_ = nullptr;
};

/// One handle runs on an ordinary stream and on the green one in turns: right on both, and slower on the few
/// multiprocessors, because a graph that was captured elsewhere would not stay on them.
bool compare(Folder programs, cudaStream_t green, bool graphs, const std::string& topic) {
  Program program(programs / "encoder_8_256.device.pte", {graphs, {}});
  program.load();
  Memory memory(Where::kDevice, program.input_bytes());
  memory.fill(halves(memory.size_bytes() / 2));
  gpu::Stream ordinary;
  const TensorPtr input = program.on_device(memory.data());
  const auto call = [&](cudaStream_t stream) {
    const CallerStreamGuard guard(stream);
    const void* output = program.run(input);
    gpu::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return output;
  };
  const size_t words = memory.size_bytes() / sizeof(uint32_t);
  const auto expected = gpu::read<uint32_t>(call(ordinary.get()), words);
  size_t wrong_words = 0;
  for (int i = 0; i < 4; ++i) {
    for (const cudaStream_t stream : {green, ordinary.get()}) {
      const auto actual = gpu::read<uint32_t>(call(stream), words);
      for (size_t w = 0; w < words; ++w) wrong_words += actual[w] != expected[w];
    }
  }
  report::check(topic + ".right", static_cast<double>(wrong_words), 0, "words that differ");
  const auto times = timing::medians({[&] { call(ordinary.get()); }, [&] { call(green); }}, kRounds);
  report::check(topic + ".confined", times[1] / times[0], kSlower, "times the time on all multiprocessors",
                true);
  report::note(topic, "ordinary_us", times[0]);
  report::note(topic, "green_us", times[1]);
  return wrong_words == 0 && times[1] >= kSlower * times[0];
}

}  // namespace

void green_context(Folder programs) {
  const GreenStream green;
  compare(programs, green.get(), false, "green_context");
  const bool good = compare(programs, green.get(), true, "green_replay");
  report::check("green_replay.confined_right", good, 1, "yes is 1", true);
}

}  // namespace cases
