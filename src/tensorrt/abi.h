#pragma once

// The binary interface of TensorRT 11 and TensorRT-RTX 1.5 and newer, as far as the delegate uses it.
//
// No package registry ships TensorRT's headers, so what they declare is written down here: plain types, enums
// and the two callback interfaces that we implement. Method numbers are in slots.h. Values and layouts are
// facts of the public headers NvInferRuntime.h and NvInferRuntimeBase.h of TensorRT 11.1 and
// TensorRT-RTX 1.6. Itanium C++ ABI only.

#include <cstddef>
#include <cstdint>
#include <string>

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "The TensorRT interface is declared for Linux on x86-64 and aarch64 only."
#endif

namespace executorch::backends::tensorrt::abi {

/// Sizes of a tensor; `nb_dims` -1 means an unknown name or rank, `d[i]` -1 a dynamic dimension.
struct Dims {
  static constexpr int32_t kMax = 8;
  int32_t nb_dims;
  int64_t d[kMax];
};
static_assert(sizeof(Dims) == 72 && offsetof(Dims, d) == 8,
              "Dims is passed by address and returned by value");

/// Two shapes are equal in rank and in every size.
bool operator==(const Dims& a, const Dims& b);
inline bool operator!=(const Dims& a, const Dims& b) { return !(a == b); }

/// A shape as people write it, such as "[2, -1, 256]".
std::string to_string(const Dims& dims);

enum class DataType : int32_t {
  kFloat = 0,
  kHalf = 1,
  kInt8 = 2,
  kInt32 = 3,
  kBool = 4,
  kUInt8 = 5,
  kFP8 = 6,
  kBF16 = 7,
  kInt64 = 8,
  kInt4 = 9,
  kFP4 = 10,
  kE8M0 = 11,
};
enum class IOMode : int32_t { kNone = 0, kInput = 1, kOutput = 2 };
enum class Location : int32_t { kDevice = 0, kHost = 1 };
enum class ProfileSelector : int32_t { kMin = 0, kOpt = 1, kMax = 2 };
enum class Severity : int32_t { kInternalError = 0, kError = 1, kWarning = 2, kInfo = 3, kVerbose = 4 };
enum class EngineStat : int32_t { kTotalWeightsSize = 0 };
enum class AllocationStrategy : int32_t { kStatic = 0, kOnProfileChange = 1, kUserManaged = 2 };

struct InterfaceInfo {
  const char* kind;
  int32_t major;
  int32_t minor;
};
static_assert(sizeof(InterfaceInfo) == 16, "InterfaceInfo is returned in two registers");

/// The first four vtable slots of every callback interface: language, info, and the two destructors.
class Callback {
 public:
  virtual int32_t api_language() const noexcept { return 0; }
  virtual InterfaceInfo interface_info() const noexcept = 0;
  virtual ~Callback() noexcept = default;
};

/// `ILogger`, version 1.0: slot 4. Called from any thread; the message dies with the call.
class LoggerInterface : public Callback {
 public:
  virtual void log(Severity severity, const char* message) noexcept = 0;
};

/// `IErrorRecorder`, version 1.0: slots 4 to 11. Called from any thread.
class ErrorRecorderInterface : public Callback {
 public:
  virtual int32_t error_count() const noexcept = 0;
  virtual int32_t error_code(int32_t index) const noexcept = 0;
  virtual const char* error_text(int32_t index) const noexcept = 0;
  virtual bool has_overflowed() const noexcept = 0;
  virtual void clear() noexcept = 0;
  virtual bool report(int32_t code, const char* text) noexcept = 0;
  virtual int32_t add_reference() noexcept = 0;
  virtual int32_t drop_reference() noexcept = 0;
};

/// What the library hands out: the vtable holds only destructors, the methods are those of `implementation`.
struct Outer {
  void** table;
  void* implementation;
};
static_assert(sizeof(Outer) == 16, "TensorRT's objects are a vtable pointer and an implementation pointer");

}  // namespace executorch::backends::tensorrt::abi
