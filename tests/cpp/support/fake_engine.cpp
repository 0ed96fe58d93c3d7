#include "tests/cpp/support/fake_engine.h"

#include <sstream>

#include "tests/cpp/support/blob_bytes.h"

namespace executorch::backends::tensorrt::testing {

namespace {

template <class Items, class Write>
std::string list(const Items& items, const Write& write) {
  std::ostringstream out;
  out << "[";
  bool first = true;
  for (const auto& item : items) {
    out << (first ? "" : ",");
    write(out, item);
    first = false;
  }
  out << "]";
  return out.str();
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string json(const Sizes& sizes) {
  return list(sizes, [](std::ostream& out, int64_t size) { out << size; });
}

std::string json(const std::vector<double>& values) {
  return list(values, [](std::ostream& out, double value) { out << value; });
}

std::string json(const std::vector<std::string>& names) {
  return list(names, [](std::ostream& out, const std::string& name) { out << quoted(name); });
}

std::string json(const Range& range) {
  return "{\"min\":" + json(range.min) + ",\"opt\":" + json(range.max) + ",\"max\":" + json(range.max) + "}";
}

}  // namespace

FakeEngine& FakeEngine::input(const std::string& name, const std::string& dtype, const Sizes& shape,
                              const std::vector<Range>& profiles) {
  tensors_.push_back({name, dtype, shape, true, ""});
  if (!profiles.empty()) {
    tensor_property("profiles",
                    list(profiles, [](std::ostream& out, const Range& range) { out << json(range); }));
  }
  return *this;
}

FakeEngine& FakeEngine::output(const std::string& name, const std::string& dtype, const Sizes& shape) {
  tensors_.push_back({name, dtype, shape, false, ""});
  return *this;
}

FakeEngine& FakeEngine::aliased_output(const std::string& name, const std::string& dtype, const Sizes& shape,
                                       const std::string& input) {
  return output(name, dtype, shape).tensor_property("aliased_input", quoted(input));
}

FakeEngine& FakeEngine::linear(const std::string& output, const std::vector<std::string>& inputs,
                               const std::vector<double>& coefficients, double constant) {
  std::ostringstream out;
  out << "{\"output\":" << quoted(output) << ",\"op\":\"linear\",\"inputs\":" << json(inputs)
      << ",\"coefficients\":" << json(coefficients) << ",\"constant\":" << constant << "}";
  operations_.push_back(out.str());
  return *this;
}

FakeEngine& FakeEngine::operation(const std::string& output, const std::string& op,
                                  const std::vector<std::string>& inputs, double constant, int dim) {
  std::ostringstream out;
  out << "{\"output\":" << quoted(output) << ",\"op\":" << quoted(op) << ",\"inputs\":" << json(inputs)
      << ",\"constant\":" << constant << ",\"dim\":" << dim << "}";
  operations_.push_back(out.str());
  return *this;
}

FakeEngine& FakeEngine::tensor_property(const std::string& key, const std::string& value) {
  tensors_.back().properties += "," + quoted(key) + ":" + value;
  return *this;
}

FakeEngine& FakeEngine::engine_property(const std::string& key, const std::string& value) {
  engine_properties_ += "," + quoted(key) + ":" + value;
  return *this;
}

FakeEngine& FakeEngine::family(Family family, int version) {
  family_ = family;
  version_ = version;
  return *this;
}

FakeEngine& FakeEngine::alias(const std::string& output, const std::string& input, const std::string& kind) {
  aliases_ += (aliases_.empty() ? "{\"output\":" : ",{\"output\":") + quoted(output) +
              ",\"input\":" + quoted(input) + ",\"kind\":" + quoted(kind) + "}";
  return *this;
}

FakeEngine& FakeEngine::device(int id) {
  device_ = id;
  return *this;
}

FakeEngine& FakeEngine::io_bindings(const std::string& json) {
  io_bindings_ = json;
  return *this;
}

FakeEngine& FakeEngine::metadata(const std::string& members) {
  metadata_ += "," + members;
  return *this;
}

std::vector<uint8_t> FakeEngine::engine_bytes() const {
  std::ostringstream text;
  text << "{\"tensors\":" << list(tensors_, [](std::ostream& out, const Tensor& tensor) {
    out << "{\"name\":" << quoted(tensor.name)
        << ",\"mode\":" << (tensor.is_input ? "\"input\"" : "\"output\"")
        << ",\"dtype\":" << quoted(tensor.dtype) << ",\"shape\":" << json(tensor.shape) << tensor.properties
        << "}";
  });
  text << ",\"operations\":"
       << list(operations_, [](std::ostream& out, const std::string& item) { out << item; })
       << engine_properties_ << "}";
  const std::string body = text.str();
  const std::string magic = family_ == Family::kRTX ? "vtrt" : "ftrt";
  std::vector<uint8_t> bytes(magic.begin(), magic.end());
  for (int shift = 0; shift < 32; shift += 8) {
    bytes.push_back(static_cast<uint8_t>(version_ >> shift));
  }
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

std::string FakeEngine::bindings_json() const {
  std::vector<Tensor> ordered;
  for (const bool wanted : {true, false}) {
    for (const Tensor& tensor : tensors_) {
      if (tensor.is_input == wanted) {
        ordered.push_back(tensor);
      }
    }
  }
  return list(ordered, [](std::ostream& out, const Tensor& tensor) {
    out << "{\"name\":" << quoted(tensor.name) << ",\"dtype\":" << quoted(tensor.dtype)
        << ",\"shape\":" << json(tensor.shape) << ",\"is_input\":" << (tensor.is_input ? "true" : "false")
        << "}";
  });
}

std::string FakeEngine::metadata_json() const {
  std::ostringstream out;
  out << "{\"io_bindings\":" << io_bindings_.value_or(bindings_json()) << ",\"aliased_io\":[" << aliases_
      << "],\"hardware_compatible\":false,\"device_id\":" << device_
      << ",\"serialized_metadata\":\"\",\"target_platform\":\"linux_x86_64\"" << metadata_ << "}";
  return out.str();
}

std::vector<uint8_t> FakeEngine::blob() const {
  return make_blob(metadata_json(), engine_bytes(), aliases_.empty() ? "TR01" : "TR02");
}

FakeEngine add_one_to_up_to_8(int device) {
  FakeEngine engine;
  engine.input("x", "float32", {-1}, {{{1}, {8}}}).output("y", "float32", {-1});
  engine.linear("y", {"x"}, {}, 1).device(device);
  return engine;
}

}  // namespace executorch::backends::tensorrt::testing
