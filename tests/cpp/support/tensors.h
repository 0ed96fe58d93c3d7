#pragma once

#include <executorch/extension/tensor/tensor_ptr.h>

#include <cstring>
#include <utility>
#include <vector>

#include "fake_cudart.h"

namespace executorch::backends::tensorrt::testing {

using Tensor = executorch::aten::Tensor;
using TensorPtr = executorch::extension::TensorPtr;
using ScalarType = executorch::aten::ScalarType;
using SizesType = executorch::aten::SizesType;
using BFloat16 = executorch::aten::BFloat16;
using Half = executorch::aten::Half;

template <class T>
constexpr ScalarType scalar_type() {
  return executorch::runtime::CppTypeToScalarType<T>::value;
}

/// Memory of one kind with values in it, freed at the end. Values are seen only when the work on it is done.
template <class T>
class Memory {
 public:
  enum class Kind { kHost, kPinned, kDevice, kManaged };

  Memory(Kind kind, const std::vector<T>& values, int device = 0, size_t shift_bytes = 0)
      : kind_(kind), device_(device), count_(values.size()), shift_bytes_(shift_bytes) {
    allocate(values.size() * sizeof(T) + shift_bytes);
    std::vector<char> bytes(count_ * sizeof(T));  // not values.data(): a vector of bool has none
    for (size_t i = 0; i < count_; ++i) {
      const T value = values[i];
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    put(bytes.data());
  }
  ~Memory() {
    if (kind_ == Kind::kHost) {
      ::operator delete(block_);
    } else if (kind_ == Kind::kPinned) {
      cudaFreeHost(block_);
    } else {
      cudaFree(block_);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  T* data() { return reinterpret_cast<T*>(static_cast<char*>(block_) + shift_bytes_); }

  /// The values as they are in memory now: nothing is waited for on host and pinned memory.
  std::vector<T> values() {
    std::vector<char> bytes(count_ * sizeof(T));
    if (kind_ == Kind::kDevice) {
      cudaMemcpy(bytes.data(), data(), bytes.size(), cudaMemcpyDeviceToHost);
    } else if (!bytes.empty()) {
      std::memcpy(bytes.data(), data(), bytes.size());
    }
    std::vector<T> result;
    for (size_t i = 0; i < count_; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      result.push_back(value);
    }
    return result;
  }

 private:
  void allocate(size_t bytes) {
    bytes = bytes == 0 ? 1 : bytes;
    int before = 0;
    cudaGetDevice(&before);
    cudaSetDevice(device_);
    if (kind_ == Kind::kHost) {
      block_ = ::operator new(bytes);
    } else if (kind_ == Kind::kPinned) {
      cudaMallocHost(&block_, bytes);
    } else if (kind_ == Kind::kDevice) {
      cudaMalloc(&block_, bytes);
    } else {
      cudaMallocManaged(&block_, bytes, cudaMemAttachGlobal);
    }
    cudaSetDevice(before);
  }

  void put(const void* source) {
    if (count_ == 0) {
      return;
    }
    if (kind_ == Kind::kDevice) {
      cudaMemcpy(data(), source, count_ * sizeof(T), cudaMemcpyHostToDevice);
    } else {
      std::memcpy(static_cast<void*>(data()), source, count_ * sizeof(T));
    }
  }

  Kind kind_;
  int device_;
  size_t count_;
  size_t shift_bytes_;
  void* block_ = nullptr;
};

/// A tensor of any kind of memory, tagged as ExecuTorch would tag it.
template <class T>
class TestTensor {
 public:
  using Kind = typename Memory<T>::Kind;

  TestTensor(Kind kind, std::vector<SizesType> sizes, const std::vector<T>& values, int device = 0,
             size_t shift_bytes = 0)
      : memory_(kind, values, device, shift_bytes),
        tensor_(executorch::extension::make_tensor_ptr(std::move(sizes), memory_.data(), scalar_type<T>(),
                                                       tag(kind, device))) {}

  TestTensor(std::vector<SizesType> sizes, const std::vector<T>& values)
      : TestTensor(Kind::kHost, std::move(sizes), values) {}

  operator Tensor*() { return tensor_.get(); }  // NOLINT(google-explicit-constructor)
  Tensor* get() { return tensor_.get(); }
  T* data() { return memory_.data(); }
  std::vector<T> values() {
    std::vector<T> all = memory_.values();
    all.resize(static_cast<size_t>(tensor_->numel()) < all.size() ? static_cast<size_t>(tensor_->numel())
                                                                  : all.size());
    return all;
  }
  std::vector<SizesType> sizes() const { return {tensor_->sizes().begin(), tensor_->sizes().end()}; }

 private:
  static executorch::aten::Device tag(Kind kind, int device) {
    using executorch::aten::Device;
    using executorch::aten::DeviceType;
    return kind == Kind::kDevice || kind == Kind::kManaged
               ? Device(DeviceType::CUDA, static_cast<executorch::runtime::etensor::DeviceIndex>(device))
               : Device(DeviceType::CPU);
  }

  Memory<T> memory_;
  TensorPtr tensor_;
};

}  // namespace executorch::backends::tensorrt::testing
