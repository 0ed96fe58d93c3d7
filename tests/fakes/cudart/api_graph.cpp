// Stream capture and graphs.

#include <utility>

#include "stream.h"

using namespace fake_cuda;

namespace {

constexpr cudaError_t kBadHandle = cudaErrorInvalidResourceHandle;

cudaError_t begin_capture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const auto stream = stream_of(handle);
  if (stream == nullptr || is_legacy(handle)) {
    return stream == nullptr ? kBadHandle : cudaErrorStreamCaptureUnsupported;
  }
  if (stream->capture != nullptr) {
    return cudaErrorIllegalState;
  }
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->members.push_back(stream);
  stream->capture = std::move(capture);
  return cudaSuccess;
}

cudaError_t result_of(const Capture& capture) {
  if (capture.invalidated) {
    return cudaErrorStreamCaptureInvalidated;
  }
  return capture.unjoined.empty() ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

cudaError_t end_capture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  const auto stream = stream_of(handle);
  if (stream == nullptr || stream->capture == nullptr) {
    return stream == nullptr ? kBadHandle : cudaErrorIllegalState;
  }
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->members.front().lock() != stream) {
    return cudaErrorStreamCaptureUnmatched;
  }
  for (const auto& member : capture->members) {
    if (const auto live = member.lock(); live != nullptr) {
      live->capture = nullptr;
    }
  }
  const cudaError_t error = result_of(*capture);
  if (error == cudaSuccess) {
    *graph = reinterpret_cast<cudaGraph_t>(capture->graph.get());
    handles().graphs[*graph] = capture->graph;
  }
  return error;
}

std::shared_ptr<Graph> graph_of(cudaGraph_t handle) {
  const auto it = handles().graphs.find(handle);
  if (it == handles().graphs.end()) {
    violation("a graph handle is not that of a live graph");
    return nullptr;
  }
  return it->second;
}

cudaError_t instantiate(cudaGraphExec_t* handle, cudaGraph_t graph_handle) {
  const auto graph = graph_of(graph_handle);
  if (graph == nullptr) {
    return cudaErrorInvalidValue;
  }
  static uintptr_t next = 0x1000;  // an executable has no object of its own to take the address of
  *handle = reinterpret_cast<cudaGraphExec_t>(next += 0x10);
  handles().executables[*handle] = {graph, current_device()};
  return cudaSuccess;
}

cudaError_t run_graph(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    if (const cudaError_t error = node(); error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

cudaError_t launch(cudaGraphExec_t executable, cudaStream_t stream_handle) {
  const auto it = handles().executables.find(executable);
  const auto stream = stream_of(stream_handle);
  if (it == handles().executables.end() || stream == nullptr) {
    violation("cudaGraphLaunch: no live executable graph or stream");
    return cudaErrorInvalidValue;
  }
  count("graph_launches");
  return submit(stream, {{}, [graph = it->second.graph] { return run_graph(*graph); }});
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&](Lock&) { return begin_capture(stream, mode); });
}

// A failed end is an end, too.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  cudaError_t own = cudaSuccess;
  const cudaError_t error =
      release_call("cudaStreamEndCapture", [&](Lock&) { return own = end_capture(stream, graph); });
  if (error != own && *graph != nullptr) {
    const Lock lock(mutex());
    handles().graphs.erase(std::exchange(*graph, nullptr));
  }
  return error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&](Lock&) {
    const auto stream = stream_of(handle);
    if (stream == nullptr) {
      return kBadHandle;
    }
    *status = stream->capture == nullptr     ? cudaStreamCaptureStatusNone
              : stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                             : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&](Lock&) {
    thread_local cudaStreamCaptureMode of_thread = cudaStreamCaptureModeGlobal;
    std::swap(*mode, of_thread);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* number) {
  return call("cudaGraphGetNodes", [&](Lock&) {
    const auto graph = graph_of(handle);
    if (graph == nullptr) {
      return cudaErrorInvalidValue;
    }
    for (size_t i = 0; nodes != nullptr && i < *number; ++i) {
      nodes[i] = i < graph->nodes.size() ? reinterpret_cast<cudaGraphNode_t>(&graph->nodes[i]) : nullptr;
    }
    *number = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return call("cudaGraphInstantiate", [&](Lock&) { return instantiate(executable, graph); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphLaunch", [&](Lock&) { return launch(executable, stream); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t) {
  return call("cudaGraphUpload", [&](Lock&) {
    return handles().executables.count(executable) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return release_call("cudaGraphDestroy", [&](Lock&) {
    return handles().graphs.erase(graph) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return release_call("cudaGraphExecDestroy", [&](Lock&) {
    return handles().executables.erase(executable) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

}  // extern "C"
