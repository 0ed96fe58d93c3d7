#pragma once

// What DLPack 1.x says of a tensor and of the table of functions that a framework's tensor type offers in
// `__dlpack_c_exchange_api__`, as far as it is used here (https://dmlc.github.io/dlpack/latest/c_api.html).
// PyTorch has had the table since 2.10.

#include <cstdint>

namespace executorch::backends::tensorrt::dlpack {

constexpr const char* kExchangeAttribute = "__dlpack_c_exchange_api__";
constexpr const char* kExchangeCapsule = "dlpack_exchange_api";
constexpr uint32_t kMajorVersion = 1;

struct Device {
  static constexpr int32_t kCuda = 2;

  int32_t type;
  int32_t index;
};

struct DataType {
  static constexpr uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kBool = 6;

  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

/// A tensor that somebody else owns; sizes and strides count elements.
struct Tensor {
  void* data;
  Device device;
  int32_t dimensions;
  DataType type;
  const int64_t* sizes;
  const int64_t* strides;  ///< null: row after row
  uint64_t byte_offset;
};

struct ExchangeApi {
  uint32_t major_version;
  uint32_t minor_version;
  const ExchangeApi* older;
  void* allocate;
  void* export_owned;
  void* import_owned;
  /// Describes a Python tensor without taking a reference: valid while nothing else runs. Not 0 with a Python
  /// exception set when it cannot be described. May be null.
  int (*describe)(void* python_tensor, Tensor* out);
  /// The framework's current stream on a device; not 0 with a Python exception set when there is none.
  int (*current_stream)(int32_t device_type, int32_t device_index, void** out);
};

}  // namespace executorch::backends::tensorrt::dlpack
