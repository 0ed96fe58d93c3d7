#pragma once

// The objects of a fake TensorRT library. Each begins with the two words that the delegate sees, an outer
// object whose table has only destructors, followed by the implementation, whose table has the methods
// (tables.cpp).

#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "description.h"
#include "functions.h"

namespace fake_tensorrt {

struct Runtime;
struct Engine;
struct Context;
struct RuntimeConfig;
struct RuntimeCache;
struct HostMemory;

/// What `table` and the methods of an object look like from outside.
template <class Self>
struct Object {
  struct Implementation {
    void* const* table;
    Self* self;
  };

  void* const* outer_table;
  Implementation* implementation_pointer;
  Implementation implementation;
  std::atomic<int> threads_inside{0};

  Object(void* const* outer, void* const* methods)
      : outer_table(outer),
        implementation_pointer(&implementation),
        implementation{methods, static_cast<Self*>(this)} {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
};

struct HostMemory : Object<HostMemory> {
  explicit HostMemory(std::string bytes);
  std::string bytes;
};

struct RuntimeCache : Object<RuntimeCache> {
  RuntimeCache();
  ~RuntimeCache();
  bool deserialize(const void* bytes, size_t size);
  HostMemory* serialize();
  void reset();
  /// False when the kernels were there already.
  bool add(const std::string& kernels);

 private:
  const int device_;  ///< on which the kernels are loaded
  std::mutex mutex_;
  std::set<std::string> kernels_;
};

/// "Compiles" kernels, unless the cache has them; with a cache or without. What was compiled is counted as
/// `live.tensorrt_compilations`.
void compile(RuntimeCache* cache, const std::string& kernels);

struct RuntimeConfig : Object<RuntimeConfig> {
  RuntimeConfig();
  ~RuntimeConfig();
  abi::AllocationStrategy strategy = abi::AllocationStrategy::kStatic;
  RuntimeCache* cache = nullptr;
  int32_t specialization = 0;
  int32_t graph_strategy = 0;
};

struct Runtime : Object<Runtime> {
  explicit Runtime(abi::LoggerInterface* logger);
  ~Runtime();

  Engine* deserialize(const void* bytes, size_t size);
  void set_recorder(abi::ErrorRecorderInterface* recorder);

  abi::LoggerInterface* logger;
  abi::ErrorRecorderInterface* recorder = nullptr;
  std::atomic<int> engines{0};
};

struct Engine : Object<Engine> {
  Engine(Runtime* runtime, EngineDescription description);
  ~Engine();

  Context* create_context(abi::AllocationStrategy strategy, RuntimeCache* cache = nullptr);
  bool set_budget(int64_t bytes);

  Runtime* runtime;
  EngineDescription description;
  int device = 0;
  void* weights = nullptr;
  int64_t budget;
  std::atomic<int> contexts{0};
};

struct Context : Object<Context> {
  Context(Engine* engine, abi::AllocationStrategy strategy);
  ~Context();

  bool set_input_shape(const char* name, const abi::Dims& shape);
  bool set_profile(int32_t index);
  /// -1 dimensions where an input shape is missing.
  abi::Dims shape_of(const char* name) const;
  bool set_address(const char* name, void* address);
  int32_t infer_shapes() const;
  void set_auxiliary_streams(const cudaStream_t* streams, int32_t count);
  bool enqueue(cudaStream_t stream);

  Engine* engine;
  abi::AllocationStrategy strategy;
  RuntimeCache* cache = nullptr;
  int32_t profile = 0;
  std::map<std::string, abi::Dims> input_shapes;
  std::map<std::string, void*> addresses;
  void* scratch = nullptr;
  int64_t scratch_bytes = 0;
  std::vector<cudaStream_t> given_streams;  ///< for the work beside the caller's stream
  std::vector<cudaStream_t> own_streams;    ///< where fewer were given than the engine uses
  /// Calls of enqueue whose work has not run yet; shared with that work.
  std::shared_ptr<std::atomic<int>> queued = std::make_shared<std::atomic<int>>(0);

 private:
  bool ready() const;
  void compile_for_shapes();
  cudaError_t enqueue_beside(cudaStream_t stream);
};

/// Reports an error as TensorRT does: to the recorder of the runtime when there is one, else to its logger.
void report(Runtime& runtime, const std::string& sentence);

/// Whether a test asked for this call to fail; then that is reported too.
bool injected(Runtime& runtime, const char* function);

}  // namespace fake_tensorrt
