#pragma once

#include <executorch/runtime/backend/interface.h>

namespace executorch::backends::tensorrt {

/// The delegate as ExecuTorch sees it. Nothing but this adapter knows `EValue`.
class TensorRTBackend final : public runtime::BackendInterface {
 public:
  /// Whether there is a driver and a GPU. Which TensorRT is needed only an engine can tell, so `init` looks
  /// for it.
  bool is_available() const override;

  runtime::Result<runtime::DelegateHandle*> init(
      runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
      runtime::ArrayRef<runtime::CompileSpec> compile_specs) const override;

  runtime::Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                         runtime::Span<runtime::EValue*> arguments) const override;

  runtime::Error set_option(runtime::BackendOptionContext& context,
                            const runtime::Span<runtime::BackendOption>& options) override;
  runtime::Error get_option(runtime::BackendOptionContext& context,
                            runtime::Span<runtime::BackendOption>& options) override;

  void destroy(runtime::DelegateHandle* handle) const override;
};

}  // namespace executorch::backends::tensorrt
