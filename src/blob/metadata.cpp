#include "metadata.h"

#include <algorithm>
#include <cinttypes>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <executorch/runtime/platform/log.h>
#include <nlohmann/json.hpp>

#include "blob/in_quotes.h"

// Every refusal here is InvalidProgram and ends in the same advice.
#define REFUSE_UNLESS(condition, format, ...)         \
  ET_CHECK_OR_RETURN_ERROR(condition, InvalidProgram, \
                           "Blob metadata: " format " Export the model again.", ##__VA_ARGS__)

namespace executorch::backends::tensorrt {

using executorch::runtime::Error;
using executorch::runtime::Result;
using Json = nlohmann::json;

namespace {

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxRank = 8;
// TensorRT takes names of at most 4096 bytes with the terminating zero.
constexpr size_t kMaxNameBytes = 4095;
// ExecuTorch's device index is a signed byte.
constexpr int64_t kMaxDeviceId = 127;
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// The document tree keeps the last of two equal keys and has no depth limit, so a first pass looks at both.
class StructureCheck : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool start_array(size_t) override { return open(); }
  bool end_array() override {
    keys_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) {
      return true;
    }
    ET_LOG(Error, "Blob metadata: key %s stands twice in one object. Export the model again.",
           in_quotes(name).c_str());
    return false;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    ET_LOG(Error, "Blob metadata: no valid JSON at its byte %zu. Export the model again.", position);
    return false;
  }

 private:
  bool open() {
    keys_.emplace_back();
    if (keys_.size() <= kMaxDepth) {
      return true;
    }
    ET_LOG(Error, "Blob metadata: nested deeper than %zu levels. Export the model again.", kMaxDepth);
    return false;
  }

  // One set per open object or array, the innermost last.
  std::vector<std::set<std::string>> keys_;
};

/// A JSON object and where it stands, for the log. Readers leave `out` alone when the key is absent.
class ObjectView {
 public:
  static Result<ObjectView> create(const Json& value, std::string where) {
    REFUSE_UNLESS(value.is_object(), "%s is %s, expected an object.", where.c_str(), value.type_name());
    return ObjectView(value, std::move(where));
  }

  const Json* find(const char* key) const {
    const auto it = object_->find(key);
    return it == object_->end() ? nullptr : &*it;
  }

  std::string path(const char* key) const { return where_.empty() ? key : where_ + "." + key; }

  Error read(const char* key, std::string& out) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return Error::Ok;
    }
    const auto* text = value->get_ptr<const std::string*>();
    REFUSE_UNLESS(text != nullptr, "%s is %s, expected a string.", path(key).c_str(), value->type_name());
    out = *text;
    return Error::Ok;
  }

  Error read(const char* key, bool& out) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return Error::Ok;
    }
    const auto* flag = value->get_ptr<const bool*>();
    REFUSE_UNLESS(flag != nullptr, "%s is %s, expected true or false.", path(key).c_str(),
                  value->type_name());
    out = *flag;
    return Error::Ok;
  }

  Error read(const char* key, int64_t min, int64_t max, std::optional<int64_t>& out) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return Error::Ok;
    }
    out = integer(*value, min, max);
    REFUSE_UNLESS(out.has_value(), "%s is %s, expected a whole number from %" PRId64 " to %" PRId64 ".",
                  path(key).c_str(),
                  in_quotes(value->dump(-1, ' ', true, Json::error_handler_t::replace)).c_str(), min, max);
    return Error::Ok;
  }

  /// The array at `key`, or null when the key is absent.
  Result<const Json*> array(const char* key) const {
    const Json* value = find(key);
    REFUSE_UNLESS(value == nullptr || value->is_array(), "%s is %s, expected an array.", path(key).c_str(),
                  value->type_name());
    return value;
  }

  /// The JSON number as an integer within the limits; nothing for fractions, other types and anything
  /// outside.
  static std::optional<int64_t> integer(const Json& value, int64_t min, int64_t max) {
    int64_t number = 0;
    if (const auto* natural = value.get_ptr<const Json::number_unsigned_t*>(); natural != nullptr) {
      if (*natural > static_cast<uint64_t>(kMaxInt64)) {
        return std::nullopt;
      }
      number = static_cast<int64_t>(*natural);
    } else if (const auto* whole = value.get_ptr<const Json::number_integer_t*>(); whole != nullptr) {
      number = *whole;
    } else {
      return std::nullopt;
    }
    return number >= min && number <= max ? std::optional<int64_t>(number) : std::nullopt;
  }

 private:
  ObjectView(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  const Json* object_;
  std::string where_;
};

std::string element(const char* key, size_t index) {
  return std::string(key) + "[" + std::to_string(index) + "]";
}

// TensorRT takes names as C strings: one with a zero inside would silently become another name.
Error read_name(const ObjectView& object, const char* key, std::string& out) {
  ET_CHECK_OK_OR_RETURN_ERROR(object.read(key, out));
  REFUSE_UNLESS(!out.empty() && out.size() <= kMaxNameBytes && out.find('\0') == std::string::npos,
                "%s is %s (%zu bytes), expected a tensor name of 1 to %zu bytes without zeros.",
                object.path(key).c_str(), in_quotes(out).c_str(), out.size(), kMaxNameBytes);
  return Error::Ok;
}

Error read_shape(const ObjectView& object, std::vector<int64_t>& out) {
  const Json* dims = ET_UNWRAP(object.array("shape"));
  if (dims == nullptr) {
    return Error::Ok;
  }
  REFUSE_UNLESS(dims->size() <= kMaxRank, "%s has %zu dimensions, TensorRT takes at most %zu.",
                object.path("shape").c_str(), dims->size(), kMaxRank);
  for (const Json& dim : *dims) {
    const std::optional<int64_t> size = ObjectView::integer(dim, -1, kMaxInt64);
    REFUSE_UNLESS(size.has_value(), "%s holds %s, expected sizes of 0 or more, or -1 for a dynamic one.",
                  object.path("shape").c_str(),
                  in_quotes(dim.dump(-1, ' ', true, Json::error_handler_t::replace)).c_str());
    out.push_back(*size);
  }
  return Error::Ok;
}

Result<BindingRecord> read_binding(const Json& value, size_t index) {
  const ObjectView object = ET_UNWRAP(ObjectView::create(value, element("io_bindings", index)));
  BindingRecord binding;
  ET_CHECK_OK_OR_RETURN_ERROR(read_name(object, "name", binding.name));
  ET_CHECK_OK_OR_RETURN_ERROR(object.read("dtype", binding.dtype));
  ET_CHECK_OK_OR_RETURN_ERROR(object.read("is_input", binding.is_input));
  ET_CHECK_OK_OR_RETURN_ERROR(read_shape(object, binding.shape));
  return binding;
}

Error read_bindings(const ObjectView& root, Metadata& metadata) {
  const Json* entries = ET_UNWRAP(root.array("io_bindings"));
  REFUSE_UNLESS(entries != nullptr, "the key io_bindings is missing.");
  std::set<std::string> names;
  for (size_t i = 0; i < entries->size(); ++i) {
    BindingRecord binding = ET_UNWRAP(read_binding((*entries)[i], i));
    REFUSE_UNLESS(names.insert(binding.name).second, "two io_bindings are named %s.",
                  in_quotes(binding.name).c_str());
    REFUSE_UNLESS(!binding.is_input || metadata.bindings.empty() || metadata.bindings.back().is_input,
                  "input %s stands after an output in io_bindings, expected all inputs first.",
                  in_quotes(binding.name).c_str());
    metadata.bindings.push_back(std::move(binding));
  }
  metadata.has_bindings = !metadata.bindings.empty();
  return Error::Ok;
}

Error read_alias_kind(const ObjectView& object, AliasKind& out) {
  std::string kind = "kv_cache_update";
  ET_CHECK_OK_OR_RETURN_ERROR(object.read("kind", kind));
  REFUSE_UNLESS(kind == "kv_cache_update" || kind == "user", "%s is %s, expected kv_cache_update or user.",
                object.path("kind").c_str(), in_quotes(kind).c_str());
  out = kind == "user" ? AliasKind::kUser : AliasKind::kKvCacheUpdate;
  return Error::Ok;
}

Result<AliasRecord> read_alias(const Json& value, size_t index) {
  const ObjectView object = ET_UNWRAP(ObjectView::create(value, element("aliased_io", index)));
  AliasRecord alias;
  ET_CHECK_OK_OR_RETURN_ERROR(read_name(object, "output", alias.output));
  ET_CHECK_OK_OR_RETURN_ERROR(read_name(object, "input", alias.input));
  ET_CHECK_OK_OR_RETURN_ERROR(read_alias_kind(object, alias.kind));
  return alias;
}

Error read_aliases(const ObjectView& root, std::vector<AliasRecord>& out) {
  const Json* entries = ET_UNWRAP(root.array("aliased_io"));
  if (entries == nullptr) {
    return Error::Ok;
  }
  for (size_t i = 0; i < entries->size(); ++i) {
    out.push_back(ET_UNWRAP(read_alias((*entries)[i], i)));
  }
  return Error::Ok;
}

Error read_digest(const ObjectView& root, std::string& out) {
  ET_CHECK_OK_OR_RETURN_ERROR(root.read("engine_sha256", out));
  for (char& c : out) {
    c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  const bool is_hex = out.find_first_not_of("0123456789abcdef") == std::string::npos;
  REFUSE_UNLESS(root.find("engine_sha256") == nullptr || (out.size() == 64 && is_hex),
                "engine_sha256 is %s, expected 64 hexadecimal digits.", in_quotes(out).c_str());
  return Error::Ok;
}

Error read_tensorrt(const ObjectView& root, Metadata& metadata) {
  const Json* value = root.find("tensorrt");
  if (value == nullptr) {
    return Error::Ok;
  }
  const ObjectView object = ET_UNWRAP(ObjectView::create(*value, "tensorrt"));
  std::string flavor;
  ET_CHECK_OK_OR_RETURN_ERROR(object.read("flavor", flavor));
  ET_CHECK_OK_OR_RETURN_ERROR(object.read("version", metadata.tensorrt_version));
  REFUSE_UNLESS(flavor == "rtx" || flavor == "tensorrt", "tensorrt.flavor is %s, expected rtx or tensorrt.",
                in_quotes(flavor).c_str());
  metadata.tensorrt_flavor = flavor == "rtx" ? EngineFlavor::kTensorRTRTX : EngineFlavor::kTensorRT;
  return Error::Ok;
}

Error read_compute_capabilities(const ObjectView& root, std::vector<std::string>& out) {
  const Json* entries = ET_UNWRAP(root.array("compute_capabilities"));
  if (entries == nullptr) {
    return Error::Ok;
  }
  for (const Json& entry : *entries) {
    const auto* text = entry.get_ptr<const std::string*>();
    REFUSE_UNLESS(text != nullptr, "compute_capabilities holds %s, expected strings such as 8.0.",
                  entry.type_name());
    out.push_back(*text);
  }
  return Error::Ok;
}

Error read_facts(const ObjectView& root, Metadata& metadata) {
  std::optional<int64_t> device_id;
  ET_CHECK_OK_OR_RETURN_ERROR(root.read("hardware_compatible", metadata.hardware_compatible));
  ET_CHECK_OK_OR_RETURN_ERROR(root.read("device_id", 0, kMaxDeviceId, device_id));
  ET_CHECK_OK_OR_RETURN_ERROR(root.read("target_platform", metadata.target_platform));
  ET_CHECK_OK_OR_RETURN_ERROR(read_digest(root, metadata.engine_sha256));
  ET_CHECK_OK_OR_RETURN_ERROR(read_tensorrt(root, metadata));
  ET_CHECK_OK_OR_RETURN_ERROR(read_compute_capabilities(root, metadata.compute_capabilities));
  ET_CHECK_OK_OR_RETURN_ERROR(root.read("layers", 0, kMaxInt64, metadata.layers));
  metadata.device_id = static_cast<int>(device_id.value_or(0));
  return Error::Ok;
}

const BindingRecord* find_binding(const std::vector<BindingRecord>& bindings, const std::string& name) {
  for (const BindingRecord& binding : bindings) {
    if (binding.name == name) {
      return &binding;
    }
  }
  return nullptr;
}

Error check_alias_side(const std::vector<BindingRecord>& bindings, const std::string& name, bool is_input) {
  const BindingRecord* binding = find_binding(bindings, name);
  const char* role = is_input ? "input" : "output";
  REFUSE_UNLESS(binding != nullptr, "aliased_io names the %s %s, but no tensor has that name.", role,
                in_quotes(name).c_str());
  REFUSE_UNLESS(binding->is_input == is_input, "aliased_io uses %s as an %s, but it is an %s.",
                in_quotes(name).c_str(), role, is_input ? "output" : "input");
  return Error::Ok;
}

// The number after the last '.' or '_'; nothing when there is none or it is not below `limit`.
std::optional<size_t> suffix_number(const std::string& name, size_t limit) {
  const size_t separator = name.find_last_of("._");
  if (separator == std::string::npos || separator + 1 == name.size()) {
    return std::nullopt;
  }
  size_t number = 0;
  for (const char c : std::string_view(name).substr(separator + 1)) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    number = number * 10 + static_cast<size_t>(c - '0');
    if (number >= limit) {
      return std::nullopt;
    }
  }
  return number;
}

}  // namespace

Error check_aliases(const std::vector<BindingRecord>& bindings, const std::vector<AliasRecord>& aliases) {
  std::set<std::string> used;
  for (const AliasRecord& alias : aliases) {
    ET_CHECK_OK_OR_RETURN_ERROR(check_alias_side(bindings, alias.output, /*is_input=*/false));
    ET_CHECK_OK_OR_RETURN_ERROR(check_alias_side(bindings, alias.input, /*is_input=*/true));
    for (const std::string* name : {&alias.output, &alias.input}) {
      REFUSE_UNLESS(used.insert(*name).second, "tensor %s stands in two entries of aliased_io.",
                    in_quotes(*name).c_str());
    }
  }
  return Error::Ok;
}

Result<Metadata> parse_metadata(Bytes json) {
  // The library takes a zero byte as the end of the text and would never see what follows.
  const auto* zero = std::find(json.begin(), json.end(), 0);
  REFUSE_UNLESS(zero == json.end(), "no valid JSON at its byte %td.", zero - json.begin() + 1);
  StructureCheck check;
  if (!Json::sax_parse(json.begin(), json.end(), &check)) {
    return Error::InvalidProgram;  // The check has logged why.
  }
  const Json document = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  REFUSE_UNLESS(document.is_object(), "the document is %s, expected an object.", document.type_name());
  const ObjectView root = ET_UNWRAP(ObjectView::create(document, ""));

  Metadata metadata;
  ET_CHECK_OK_OR_RETURN_ERROR(read_bindings(root, metadata));
  ET_CHECK_OK_OR_RETURN_ERROR(read_aliases(root, metadata.aliases));
  ET_CHECK_OK_OR_RETURN_ERROR(read_facts(root, metadata));
  if (metadata.has_bindings) {
    ET_CHECK_OK_OR_RETURN_ERROR(check_aliases(metadata.bindings, metadata.aliases));
  }
  return metadata;
}

Result<std::vector<std::string>> order_by_suffix(std::vector<std::string> names) {
  std::vector<std::string> ordered(names.size());
  for (std::string& name : names) {
    const std::optional<size_t> position = suffix_number(name, names.size());
    ET_CHECK_OR_RETURN_ERROR(position.has_value(), InvalidProgram,
                             "Tensor %s gives no position: the blob lists no io_bindings, so names must end "
                             "in .0 to .%zu or _0 to _%zu. "
                             "Export the model again.",
                             in_quotes(name).c_str(), names.size() - 1, names.size() - 1);
    std::string& place = ordered[*position];
    ET_CHECK_OR_RETURN_ERROR(place.empty(), InvalidProgram,
                             "Tensors %s and %s both claim position %zu. Export the model again.",
                             in_quotes(place).c_str(), in_quotes(name).c_str(), *position);
    place = std::move(name);
  }
  return ordered;
}

}  // namespace executorch::backends::tensorrt
