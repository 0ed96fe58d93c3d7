#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace executorch::backends::tensorrt::testing {

using Sizes = std::vector<int64_t>;

/// The range of a dynamic input in one optimization profile.
struct Range {
  Sizes min;
  Sizes max;
};

/// Writes the bytes of engines that the fake TensorRT libraries run, and blobs around them.
///
///   FakeEngine engine;
///   engine.input("x", "float32", {2, 3}).output("y", "float32", {2, 3}).linear("y", {"x"}, {1.0}, 1.0);
///   std::vector<uint8_t> blob = engine.blob();
///
/// What the operations compute: tests/fakes/tensorrt/functions.h.
class FakeEngine {
 public:
  enum class Family { kRTX, kTensorRT };

  FakeEngine& input(const std::string& name, const std::string& dtype, const Sizes& shape,
                    const std::vector<Range>& profiles = {});
  FakeEngine& output(const std::string& name, const std::string& dtype, const Sizes& shape);
  /// The engine itself declares that `output` shares memory with `input`.
  FakeEngine& aliased_output(const std::string& name, const std::string& dtype, const Sizes& shape,
                             const std::string& input);

  FakeEngine& linear(const std::string& output, const std::vector<std::string>& inputs,
                     const std::vector<double>& coefficients = {}, double constant = 0);
  FakeEngine& operation(const std::string& output, const std::string& op,
                        const std::vector<std::string>& inputs, double constant = 0, int dim = 0);

  /// A property of the last tensor, or of the engine, by its JSON key; `value` is JSON.
  FakeEngine& tensor_property(const std::string& key, const std::string& value);
  FakeEngine& engine_property(const std::string& key, const std::string& value);

  FakeEngine& family(Family family, int version);
  /// Lists an alias in the blob, and makes it TR02.
  FakeEngine& alias(const std::string& output, const std::string& input,
                    const std::string& kind = "kv_cache_update");
  FakeEngine& device(int id);
  /// Another order or list of bindings in the blob than the engine's: JSON, such as "[]".
  FakeEngine& io_bindings(const std::string& json);
  /// More members of the metadata: JSON such as "\"layers\":3".
  FakeEngine& metadata(const std::string& members);

  std::vector<uint8_t> engine_bytes() const;
  std::vector<uint8_t> blob() const;

 private:
  std::string bindings_json() const;
  std::string metadata_json() const;

  struct Tensor {
    std::string name;
    std::string dtype;
    Sizes shape;
    bool is_input;
    std::string properties;  ///< JSON members, each after a comma
  };
  std::vector<Tensor> tensors_;
  std::vector<std::string> operations_;
  std::string engine_properties_;
  std::string aliases_;
  std::string metadata_;
  std::optional<std::string> io_bindings_;
  Family family_ = Family::kRTX;
  int version_ = 10601;
  int device_ = 0;
};

/// `y = x + 1` on 1 to 8 float32 elements.
FakeEngine add_one_to_up_to_8(int device = 0);

}  // namespace executorch::backends::tensorrt::testing
