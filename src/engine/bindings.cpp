#include "engine/bindings.h"

#include <algorithm>
#include <cstring>

#include "blob/in_quotes.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

constexpr int32_t kProfile = 0;
constexpr int32_t kLinear = 0;
constexpr const char* kExportAgain = "The file does not fit its engine: export the model again.";

bool has_dynamic_size(const abi::Dims& shape) {
  return std::any_of(shape.d, shape.d + shape.nb_dims, [](int64_t size) { return size < 0; });
}

bool same_shape(const std::vector<int64_t>& recorded, const abi::Dims& shape) {
  return recorded.size() == static_cast<size_t>(shape.nb_dims) &&
         std::equal(recorded.begin(), recorded.end(), shape.d);
}

const char* direction(bool is_input) { return is_input ? "input" : "output"; }

/// Resolves the tensors of one engine; holds what every step and every sentence needs.
class Resolver {
 public:
  Resolver(const Engine& engine, const Metadata& metadata, const std::string& label)
      : engine_(engine), metadata_(metadata), label_(label.c_str()) {}

  Result<Bindings> run() {
    auto records = recorded_tensors();
    ET_CHECK_OK_OR_RETURN_ERROR(records.error());
    ET_CHECK_OK_OR_RETURN_ERROR(check_same_tensors(*records));
    Bindings bindings;
    for (const BindingRecord& record : *records) {
      auto binding = resolve(record);
      ET_CHECK_OK_OR_RETURN_ERROR(binding.error());
      (record.is_input ? bindings.inputs : bindings.outputs).push_back(std::move(*binding));
    }
    ET_CHECK_OK_OR_RETURN_ERROR(resolve_aliases(bindings));
    return bindings;
  }

 private:
  /// The blob's list; where an older writer left it empty, the engine's names in the order of their numbers.
  Result<std::vector<BindingRecord>> recorded_tensors() const {
    if (metadata_.has_bindings) {
      return metadata_.bindings;
    }
    std::vector<BindingRecord> records;
    for (const bool is_input : {true, false}) {
      std::vector<std::string> names;
      for (int32_t i = 0; i < engine_.tensor_count(); ++i) {
        const char* name = engine_.tensor_name(i);
        if ((engine_.mode(name) == abi::IOMode::kInput) == is_input) {
          names.emplace_back(name);
        }
      }
      auto ordered = order_by_suffix(std::move(names));
      ET_CHECK_OK_OR_RETURN_ERROR(ordered.error());
      for (std::string& name : *ordered) {
        records.push_back({std::move(name), "", {}, is_input});
      }
    }
    ET_CHECK_OK_OR_RETURN_ERROR(check_aliases(records, metadata_.aliases));
    return records;
  }

  Error check_same_tensors(const std::vector<BindingRecord>& records) const {
    for (const BindingRecord& record : records) {
      const abi::IOMode mode = engine_.mode(record.name.c_str());
      if (mode == abi::IOMode::kNone || (mode == abi::IOMode::kInput) != record.is_input) {
        DELEGATE_LOG(Error, "%s: the file records the %s %s, but the engine has no such %s. %s", label_,
                     direction(record.is_input), in_quotes(record.name).c_str(), direction(record.is_input),
                     kExportAgain);
        return Error::InvalidProgram;
      }
    }
    for (int32_t i = 0; i < engine_.tensor_count(); ++i) {
      const char* name = engine_.tensor_name(i);
      if (std::none_of(records.begin(), records.end(),
                       [&](const BindingRecord& record) { return record.name == name; })) {
        DELEGATE_LOG(Error, "%s: the engine has the %s %s, which the file does not record. %s", label_,
                     direction(engine_.mode(name) == abi::IOMode::kInput), in_quotes(name).c_str(),
                     kExportAgain);
        return Error::InvalidProgram;
      }
    }
    return Error::Ok;
  }

  Result<Binding> resolve(const BindingRecord& record) const {
    const char* name = record.name.c_str();
    const auto dtype = scalar_type_of(engine_.data_type(name));
    if (!dtype.has_value()) {
      DELEGATE_LOG(
          Error,
          "%s: %s %s has TensorRT's type %s, which no ExecuTorch tensor has. Cast it inside the model.",
          label_, direction(record.is_input), in_quotes(name).c_str(), name_of(engine_.data_type(name)));
      return Error::NotSupported;
    }
    if (engine_.location(name) == abi::Location::kHost ||
        (record.is_input && engine_.is_shape_inference_io(name))) {
      DELEGATE_LOG(Error,
                   "%s: the values of %s %s decide shapes, so TensorRT reads them on the host; only tensors "
                   "on the device "
                   "are supported. Make the shape depend on the shape of another input.",
                   label_, direction(record.is_input), in_quotes(name).c_str());
      return Error::NotSupported;
    }
    if (engine_.format(name, kProfile) != kLinear) {
      DELEGATE_LOG(Error,
                   "%s: %s %s has the packed memory format %d; only the linear format is supported. Build "
                   "the engine with linear I/O.",
                   label_, direction(record.is_input), in_quotes(name).c_str(),
                   engine_.format(name, kProfile));
      return Error::NotSupported;
    }
    Binding binding{record.name, *dtype, engine_.shape(name), {}, {}};
    ET_CHECK_OK_OR_RETURN_ERROR(check_record(record, binding));
    if (record.is_input) {
      ET_CHECK_OK_OR_RETURN_ERROR(set_range(binding));
    }
    return binding;
  }

  Error check_record(const BindingRecord& record, const Binding& binding) const {
    if (record.dtype.empty()) {
      return Error::Ok;
    }
    if (record.dtype != name_of(binding.dtype) || !same_shape(record.shape, binding.shape)) {
      abi::Dims recorded{static_cast<int32_t>(std::min<size_t>(record.shape.size(), abi::Dims::kMax)), {}};
      std::copy_n(record.shape.begin(), recorded.nb_dims, recorded.d);
      DELEGATE_LOG(Error, "%s: the file records %s %s as %s %s, but the engine has %s %s. %s", label_,
                   direction(record.is_input), in_quotes(record.name).c_str(),
                   in_quotes(record.dtype).c_str(), abi::to_string(recorded).c_str(), name_of(binding.dtype),
                   abi::to_string(binding.shape).c_str(), kExportAgain);
      return Error::InvalidProgram;
    }
    return Error::Ok;
  }

  Error set_range(Binding& binding) const {
    binding.min = binding.max = binding.shape;
    if (!has_dynamic_size(binding.shape)) {
      return Error::Ok;
    }
    const char* name = binding.name.c_str();
    binding.min = engine_.profile_shape(name, kProfile, abi::ProfileSelector::kMin);
    binding.max = engine_.profile_shape(name, kProfile, abi::ProfileSelector::kMax);
    if (binding.min.nb_dims != binding.shape.nb_dims || binding.max.nb_dims != binding.shape.nb_dims) {
      DELEGATE_LOG(Error,
                   "%s: input %s is dynamic, but the engine's optimization profile 0 has no range for it. %s",
                   label_, in_quotes(name).c_str(), kExportAgain);
      return Error::InvalidProgram;
    }
    return Error::Ok;
  }

  /// Aliases that the engine has by itself must be recorded, and the recorded ones must be possible.
  Error resolve_aliases(Bindings& bindings) const {
    for (Binding& output : bindings.outputs) {
      const auto record = std::find_if(metadata_.aliases.begin(), metadata_.aliases.end(),
                                       [&](const AliasRecord& alias) { return alias.output == output.name; });
      const char* own = engine_.aliased_input(output.name.c_str());
      if (record == metadata_.aliases.end() && own == nullptr) {
        continue;
      }
      if (record == metadata_.aliases.end() || (own != nullptr && record->input != own) ||
          (own == nullptr && record->kind == AliasKind::kKvCacheUpdate)) {
        DELEGATE_LOG(
            Error, "%s: output %s shares memory with %s in the engine, but with %s in the file. %s", label_,
            in_quotes(output.name).c_str(), own == nullptr ? "no input" : in_quotes(own).c_str(),
            record == metadata_.aliases.end() ? "no input" : in_quotes(record->input).c_str(), kExportAgain);
        return Error::InvalidProgram;
      }
      ET_CHECK_OK_OR_RETURN_ERROR(set_alias(bindings, output, record->input));
    }
    return Error::Ok;
  }

  Error set_alias(Bindings& bindings, Binding& output, const std::string& input_name) const {
    const auto input = std::find_if(bindings.inputs.begin(), bindings.inputs.end(),
                                    [&](const Binding& binding) { return binding.name == input_name; });
    if (input == bindings.inputs.end() || input->dtype != output.dtype || input->shape != output.shape) {
      DELEGATE_LOG(Error, "%s: output %s cannot share memory with input %s: type and shape must be equal. %s",
                   label_, in_quotes(output.name).c_str(), in_quotes(input_name).c_str(), kExportAgain);
      return Error::InvalidProgram;
    }
    output.alias_of = static_cast<int>(input - bindings.inputs.begin());
    input->is_aliased = true;
    return Error::Ok;
  }

  const Engine& engine_;
  const Metadata& metadata_;
  const char* label_;
};

}  // namespace

size_t Bindings::unaliased_output_count() const {
  return static_cast<size_t>(std::count_if(outputs.begin(), outputs.end(), [](const Binding& output) {
    return output.alias_of == Binding::kNoAlias;
  }));
}

Result<Bindings> resolve_bindings(const Engine& engine, const Metadata& metadata, const std::string& label) {
  return Resolver(engine, metadata, label).run();
}

}  // namespace executorch::backends::tensorrt
