#pragma once

// The vtable slots that the delegate calls. Read from the compiler for the public headers of TensorRT 11.1
// (NvInferImpl.h, the classes apiv::V*) and from the headers of TensorRT-RTX 1.5 and 1.6; both families share
// every number in this file unless a line names one family. A wrong number is undefined behaviour, never an
// error code: objects.cpp verifies each table before its first use, and the GPU tests compare every slot with
// the official bindings.

#include "tensorrt/abi.h"

namespace executorch::backends::tensorrt::slots {

/// One virtual method: its number, and its signature without the object.
template <class Signature>
struct Slot;

template <class Return, class... Arguments>
struct Slot<Return(Arguments...)> {
  int number;

  /// Calls the method of `implementation`, with the calling convention of a member function.
  Return operator()(void* implementation, Arguments... arguments) const {
    void* const* table = *static_cast<void***>(implementation);
    return reinterpret_cast<Return (*)(void*, Arguments...)>(table[number])(implementation, arguments...);
  }
};

/// Slot 1 of the outer vtable: the deleting destructor. There is no other way to destroy an object.
inline constexpr int kOuterDestroy = 1;

/// Returns the outer object; the self-check that the implementation pointer is what we think it is.
inline constexpr Slot<void*()> kOuterOf{2};

namespace runtime {
inline constexpr Slot<void*(const void* engine, size_t size_bytes)> kDeserialize{3};
inline constexpr Slot<void(abi::ErrorRecorderInterface*)> kSetErrorRecorder{8};
inline constexpr Slot<abi::LoggerInterface*()> kLogger{10};
inline constexpr int kUsed[] = {2, 3, 8, 10};
}  // namespace runtime

namespace engine {
inline constexpr Slot<int32_t()> kLayerCount{3};
inline constexpr Slot<int32_t()> kProfileCount{8};
inline constexpr Slot<abi::Dims(const char* tensor)> kShape{15};
inline constexpr Slot<abi::DataType(const char* tensor)> kDataType{16};
inline constexpr Slot<abi::Location(const char* tensor)> kLocation{17};
inline constexpr Slot<bool(const char* tensor)> kIsShapeInferenceIO{18};
inline constexpr Slot<abi::IOMode(const char* tensor)> kMode{19};
inline constexpr Slot<abi::Dims(const char* tensor, int32_t profile, abi::ProfileSelector)> kProfileShape{25};
inline constexpr Slot<int32_t()> kTensorCount{26};
inline constexpr Slot<const char*(int32_t index)> kTensorName{27};
inline constexpr Slot<int32_t()> kAuxiliaryStreamCount{29};
inline constexpr Slot<int32_t(const char* tensor, int32_t profile)> kFormat{32};
inline constexpr Slot<int64_t()> kStreamableWeightsSize{38};
inline constexpr Slot<bool(int64_t size_bytes)> kSetWeightStreamingBudget{40};
inline constexpr Slot<int64_t()> kWeightStreamingBudget{41};
inline constexpr Slot<int64_t()> kWeightStreamingAutomaticBudget{42};
inline constexpr Slot<int64_t()> kDeviceMemorySize{44};
inline constexpr Slot<void*(void* runtime_config)> kCreateContextWithConfig{47};
inline constexpr Slot<void*()> kCreateRuntimeConfig{48};
inline constexpr Slot<int64_t(abi::EngineStat)> kStat{49};
inline constexpr Slot<const char*(const char* output)> kAliasedInput{50};
inline constexpr int kUsed[] = {2,  3,  8,  15, 16, 17, 18, 19, 25, 26, 27,
                                29, 32, 38, 40, 41, 42, 44, 47, 48, 49, 50};
}  // namespace engine

namespace context {
inline constexpr Slot<bool(const char* tensor, const abi::Dims*)> kSetInputShape{20};
inline constexpr Slot<abi::Dims(const char* tensor)> kShape{21};
inline constexpr Slot<bool(const char* tensor, void* address)> kSetTensorAddress{23};
inline constexpr Slot<int32_t(int32_t capacity, const char** names)> kInferShapes{27};
inline constexpr Slot<bool(void* stream)> kEnqueue{36};
inline constexpr Slot<void(void* const* streams, int32_t count)> kSetAuxiliaryStreams{41};
inline constexpr Slot<void(void* block, int64_t size_bytes)> kSetDeviceMemory{48};
inline constexpr int kUsed[] = {2, 20, 21, 23, 27, 36, 41, 48};
}  // namespace context

namespace runtime_config {
inline constexpr Slot<void(abi::AllocationStrategy)> kSetAllocationStrategy{3};
inline constexpr int kUsed[] = {2, 3};
}  // namespace runtime_config

/// TensorRT-RTX only. The cache and the host memory have no `getPImpl`; their methods start at 2.
namespace rtx {
inline constexpr Slot<bool(void* stream)> kIsStreamCapturable{52};  // another method in TensorRT 11
inline constexpr Slot<void*()> kCreateRuntimeCache{5};
inline constexpr Slot<bool(const void* cache)> kSetRuntimeCache{6};
inline constexpr int kUsedOfConfig[] = {2, 3, 5, 6};
inline constexpr Slot<void*()> kSerializeCache{2};
inline constexpr Slot<bool(const void* bytes, size_t size_bytes)> kDeserializeCache{3};
inline constexpr int kUsedOfCache[] = {2, 3};
}  // namespace rtx

namespace host_memory {
inline constexpr Slot<void*()> kData{2};
inline constexpr Slot<size_t()> kSize{3};
inline constexpr int kUsed[] = {2, 3};
}  // namespace host_memory

}  // namespace executorch::backends::tensorrt::slots
