#include "engine/embedded_kernels.h"

#include <string_view>
#include <utility>

#include "blob/in_quotes.h"
#include "engine/kernel_bytes.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

constexpr const char* kPrefix = "tensorrt_kernels/";

std::string prefix_of(const KernelKey& key) { return kPrefix + key.engine_digest + "/"; }

/// What a program holds of one engine.
struct Held {
  bool wanted = false;
  std::string others;  ///< versions and GPUs that its other kernels are for
};

// By going through the keys, because ExecuTorch logs an error when it is asked for one that is not there.
Held look_through(const runtime::NamedDataMap& data, const KernelKey& key) {
  const std::string prefix = prefix_of(key);
  const std::string wanted = key.text();
  Held held;
  auto count = data.get_num_keys();
  for (uint32_t i = 0; count.ok() && i < *count; ++i) {
    auto name = data.get_key(i);
    const std::string_view text = name.ok() ? *name : "";
    if (text == wanted) {
      held.wanted = true;
    } else if (text.substr(0, prefix.size()) == prefix) {
      held.others += (held.others.empty() ? "" : ", ") + in_quotes(text.substr(prefix.size()));
    }
  }
  return held;
}

}  // namespace

std::string KernelKey::text() const { return prefix_of(*this) + library + "/" + gpu; }

std::optional<EmbeddedKernelBytes> EmbeddedKernels::find(const KernelKey& key,
                                                         const std::string& label) const {
  if (data_ == nullptr) {
    return std::nullopt;
  }
  const Held held = look_through(*data_, key);
  if (!held.wanted) {
    if (!held.others.empty()) {
      DELEGATE_LOG(Info, "%s: the file brings compiled kernels for %s, but this machine is %s.",
                   label.c_str(), held.others.c_str(), in_quotes(key.library + "/" + key.gpu).c_str());
    }
    return std::nullopt;
  }
  auto buffer = data_->get_data(key.text());
  const Bytes kernels =
      buffer.ok() ? unseal_kernels({static_cast<const uint8_t*>(buffer->data()), buffer->size()}) : Bytes();
  if (kernels.empty()) {
    DELEGATE_LOG(Info,
                 "%s: the compiled kernels in the file are damaged and are not used. Copy or export the file "
                 "again to load it faster.",
                 label.c_str());
    return std::nullopt;
  }
  return EmbeddedKernelBytes(std::move(*buffer), kernels);
}

}  // namespace executorch::backends::tensorrt
