#include "cuda/graph.h"

namespace executorch::backends::tensorrt {

Result<Graph> Graph::instantiate(cudaGraph_t captured, const char*& why) {
  size_t node_count = 0;
  cudaError_t status = cudaGraphGetNodes(captured, nullptr, &node_count);
  if (status == cudaSuccess && node_count == 0) {
    why = "nothing was captured";  // as happens with the wrong current device
    return Error::NotSupported;
  }
  cudaGraphExec_t raw = nullptr;
  if (status == cudaSuccess) {
    status = cudaGraphInstantiate(&raw, captured, 0);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    why = cudaGetErrorString(status);
    return Error::NotSupported;
  }
  return Graph(Handle(raw));
}

}  // namespace executorch::backends::tensorrt
