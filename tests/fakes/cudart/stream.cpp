#include "stream.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace fake_cuda {

namespace {

std::condition_variable& progress() {
  static auto* const instance = new std::condition_variable;
  return *instance;
}

std::shared_ptr<Stream> add(int device, bool blocking) {
  auto stream = std::make_shared<Stream>(device, blocking);
  handles().all.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> legacy_stream(int device) {
  static auto* const streams = new std::map<int, std::shared_ptr<Stream>>;
  auto& stream = (*streams)[device];
  if (stream == nullptr) {
    stream = add(device, false);  // its order with the others is made in `submit`
  }
  return stream;
}

std::shared_ptr<Stream> per_thread_stream(int device) {
  thread_local std::map<int, std::shared_ptr<Stream>> streams;
  auto& stream = streams[device];
  if (stream == nullptr) {
    stream = add(device, true);
  }
  return stream;
}

cudaError_t refuse_implicit_order() {
  for (const auto& stream : handles().all) {
    if (stream->capture != nullptr && stream->blocking) {
      stream->capture->invalidated = true;
      return cudaErrorStreamCaptureImplicit;
    }
  }
  return cudaSuccess;
}

// Work of the legacy stream starts after all blocking streams and is waited for by all their later work.
cudaError_t order_with_legacy(const std::shared_ptr<Stream>& stream, Work& work) {
  const auto legacy = legacy_stream(stream->device);
  if (stream == legacy) {
    if (const cudaError_t error = refuse_implicit_order(); error != cudaSuccess) {
      return error;
    }
    count("legacy_stream_work");
    for (const auto& other : handles().all) {
      if (other->blocking && other->device == stream->device && other->done < other->queued) {
        work.after.push_back(end_of(other));
      }
    }
  } else if (stream->blocking && legacy->done < legacy->queued) {
    work.after.push_back(end_of(legacy));
  }
  return cudaSuccess;
}

/// Runs the front of the queue, which nobody else is running.
void run_front(Lock& lock, Stream& stream) {
  stream.running = true;
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  for (const Point& point : work.after) {
    wait_for(lock, point);
  }
  cudaError_t error = cudaSuccess;
  if (work.run) {
    lock.unlock();
    error = work.run();
    work.run = nullptr;  // its argument may have a destructor that calls us
    lock.lock();
  }
  if (error != cudaSuccess && stream.error == cudaSuccess) {
    stream.error = error;
  }
  ++stream.done;
  stream.running = false;
  progress().notify_all();
}

// Streams that nobody can add to any more are dropped when their work is done.
void forget_finished() {
  auto& all = handles().all;
  all.erase(std::remove_if(
                all.begin(), all.end(),
                [](const auto& stream) { return stream.use_count() == 1 && stream->done == stream->queued; }),
            all.end());
}

}  // namespace

Handles& handles() {
  static auto* const instance = new Handles;
  return *instance;
}

bool is_legacy(cudaStream_t handle) { return handle == nullptr || handle == cudaStreamLegacy; }

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
  if (is_legacy(handle)) {
    return legacy_stream(current_device());
  }
  if (handle == cudaStreamPerThread) {
    return per_thread_stream(current_device());
  }
  for (const auto& stream : handles().streams) {
    if (static_cast<void*>(stream.get()) == static_cast<void*>(handle)) {
      return stream;
    }
  }
  violation("a stream handle is not that of a live stream");
  return nullptr;
}

cudaError_t submit(const std::shared_ptr<Stream>& stream, Work work) {
  if (stream->is_detached) {
    violation("work is given to a stream whose green context is destroyed");
    return cudaErrorInvalidResourceHandle;
  }
  if (work.run && control().next_work_failure != cudaSuccess) {
    const cudaError_t error = std::exchange(control().next_work_failure, cudaSuccess);
    work.run = [error] { return error; };
  }
  if (stream->capture != nullptr) {
    if (work.run) {
      stream->capture->graph->nodes.push_back(std::move(work.run));
    }
    return cudaSuccess;
  }
  if (const cudaError_t error = order_with_legacy(stream, work); error != cudaSuccess) {
    return error;
  }
  stream->queue.push_back(std::move(work));
  ++stream->queued;
  return cudaSuccess;
}

void wait_for(Lock& lock, const Point& point) {
  Stream& stream = *point.stream;
  while (stream.done < point.sequence) {
    if (stream.running) {
      progress().wait(lock);
    } else {
      run_front(lock, stream);
    }
  }
}

cudaError_t wait_for_stream(Lock& lock, const std::shared_ptr<Stream>& stream) {
  count("host_waits");
  wait_for(lock, end_of(stream));
  forget_finished();
  return std::exchange(stream->error, cudaSuccess);
}

cudaError_t wait_for_device(Lock& lock, int device) {
  cudaError_t error = cudaSuccess;
  const std::vector<std::shared_ptr<Stream>> all = handles().all;  // running work may add streams
  for (const auto& stream : all) {
    if (device >= 0 && stream->device != device) {
      continue;
    }
    wait_for(lock, end_of(stream));
    const cudaError_t own = std::exchange(stream->error, cudaSuccess);
    error = error == cudaSuccess ? own : error;
  }
  forget_finished();
  return error;
}

bool advance(Lock& lock, const Point& point) {
  Stream& stream = *point.stream;
  if (stream.done < point.sequence && !stream.running) {
    run_front(lock, stream);
    return false;
  }
  return stream.done >= point.sequence;
}

cudaError_t refuse_in_capture(const std::shared_ptr<Stream>& stream) {
  if (stream->capture == nullptr) {
    return cudaSuccess;
  }
  stream->capture->invalidated = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t refuse_unsafe_call() {
  for (const auto& stream : handles().all) {
    const auto& capture = stream->capture;
    if (capture == nullptr || capture->mode == cudaStreamCaptureModeRelaxed) {
      continue;
    }
    if (capture->mode == cudaStreamCaptureModeGlobal || capture->owner == std::this_thread::get_id()) {
      capture->invalidated = true;
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  return cudaSuccess;
}

}  // namespace fake_cuda
