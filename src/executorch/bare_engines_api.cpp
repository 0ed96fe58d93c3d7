#include "executorch/bare_engines_api.h"

#include <utility>

#include "engine/bare_engines.h"
#include "executorch/contain.h"

using executorch::backends::tensorrt::BareEngines;
using executorch::backends::tensorrt::contain;
using executorch::backends::tensorrt::Error;

struct tensorrt_executorch_bare_engines {
  std::unique_ptr<BareEngines> engines;
};

namespace {

BareEngines::Launch launch_of(bool graphs) {
  return graphs ? BareEngines::Launch::kGraph : BareEngines::Launch::kEnqueue;
}

template <class Work>
int code_of(Work&& work) {
  return static_cast<int>(contain("Running engines without the delegate", std::forward<Work>(work)));
}

}  // namespace

extern "C" {

int tensorrt_executorch_bare_create(const size_t* numbers, size_t count,
                                    tensorrt_executorch_bare_engines** engines) {
  *engines = nullptr;
  return code_of([&] {
    auto made = BareEngines::of({numbers, count});
    ET_CHECK_OK_OR_RETURN_ERROR(made.error());
    *engines = new tensorrt_executorch_bare_engines{std::move(*made)};
    return Error::Ok;
  });
}

void tensorrt_executorch_bare_destroy(tensorrt_executorch_bare_engines* engines) { delete engines; }

const char* tensorrt_executorch_bare_no_graphs_because(const tensorrt_executorch_bare_engines* engines) {
  return engines->engines->no_graphs_because().c_str();
}

int tensorrt_executorch_bare_latencies(tensorrt_executorch_bare_engines* engines, bool graphs, size_t calls,
                                       double* microseconds) {
  return code_of([&] { return engines->engines->latencies(launch_of(graphs), {microseconds, calls}); });
}

int tensorrt_executorch_bare_total(tensorrt_executorch_bare_engines* engines, bool graphs, size_t calls,
                                   double* microseconds) {
  return code_of([&] {
    auto total = engines->engines->total(launch_of(graphs), calls);
    ET_CHECK_OK_OR_RETURN_ERROR(total.error());
    *microseconds = *total;
    return Error::Ok;
  });
}

}  // extern "C"
