#include "executorch/backend.h"

#include <executorch/runtime/core/evalue.h>

#include "cuda/device_info.h"
#include "engine/embedded_kernels.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "executorch/caller_stream.h"
#include "executorch/contain.h"
#include "executorch/device_allocator.h"
#include "executorch/last_load.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

using runtime::ArrayRef;
using runtime::BackendExecutionContext;
using runtime::BackendInitContext;
using runtime::BackendOption;
using runtime::CompileSpec;
using runtime::DelegateHandle;
using runtime::EValue;
using runtime::FreeableBuffer;

namespace {

Result<DelegateHandle*> load(BackendInitContext& context, FreeableBuffer* processed,
                             ArrayRef<CompileSpec> compile_specs) {
  if (processed == nullptr || processed->data() == nullptr) {
    DELEGATE_LOG(Error,
                 "The program holds no data for TensorRTBackend; it is damaged. Export the model again.");
    return Error::InvalidArgument;
  }
  const auto load_options = context.runtime_specs();
  auto options = read_load_options(compile_specs, {load_options.data(), load_options.size()});
  ET_CHECK_OK_OR_RETURN_ERROR(options.error());
  const char* method = context.get_method_name();
  const std::string label = std::string("method \"") + (method == nullptr ? "" : method) + "\"";
  const Bytes blob(static_cast<const uint8_t*>(processed->data()), processed->size());
  const EmbeddedKernels embedded(context.get_named_data_map());
  auto engine = LoadedEngine::load(blob, *options, embedded, label);
  ET_CHECK_OK_OR_RETURN_ERROR(engine.error());
  processed->Free();  // TensorRT has copied what it needs
  remember_load(engine->get());
  return static_cast<DelegateHandle*>(engine->release());
}

/// The tensors among the arguments, until the next call on this thread. Sizes that the program passes as
/// integers beside the tensors that have them are no bindings of an engine.
Result<Span<Tensor* const>> tensors_of(runtime::Span<EValue*> arguments, const std::string& label) {
  static thread_local std::vector<Tensor*> tensors;  // so that a call allocates nothing
  tensors.clear();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i]->isTensor()) {
      tensors.push_back(&arguments[i]->toTensor());
    } else if (!arguments[i]->isInt()) {
      DELEGATE_LOG(Error, "%s: argument %zu of the engine is no tensor. Export the model again.",
                   label.c_str(), i);
      return Error::InvalidArgument;
    }
  }
  return Span<Tensor* const>(tensors.data(), tensors.size());
}

Error run(LoadedEngine* loaded, runtime::Span<EValue*> arguments) {
  if (loaded == nullptr) {
    DELEGATE_LOG(Error, "TensorRTBackend was called without a loaded engine. Load the method first.");
    return Error::InvalidArgument;
  }
  LoadedEngine& engine = *loaded;
  auto tensors = tensors_of(arguments, engine.label());
  ET_CHECK_OK_OR_RETURN_ERROR(tensors.error());
  const ThreadStream chosen = thread_stream(engine.device());
  // Without a stream of the caller's, results must be there for whoever reads them next, except where it is
  // known that this thread's stream reads them.
  const bool may_follow =
      chosen.is_callers || (engine.results_in_stream_order() && copies_on_thread_stream());
  return engine.run(*tensors, chosen.stream, may_follow ? Completion::kQueued : Completion::kFinished);
}

}  // namespace

bool TensorRTBackend::is_available() const { return device_count().ok(); }

Result<DelegateHandle*> TensorRTBackend::init(BackendInitContext& context, FreeableBuffer* processed,
                                              ArrayRef<CompileSpec> compile_specs) const {
  return contain("Loading an engine", [&] { return load(context, processed, compile_specs); });
}

Error TensorRTBackend::execute(BackendExecutionContext&, DelegateHandle* handle,
                               runtime::Span<EValue*> arguments) const {
  return contain("Running an engine", [&] { return run(static_cast<LoadedEngine*>(handle), arguments); });
}

Error TensorRTBackend::set_option(runtime::BackendOptionContext&,
                                  const runtime::Span<BackendOption>& options) {
  return contain("Setting an option", [&] { return set_process_options(options); });
}

Error TensorRTBackend::get_option(runtime::BackendOptionContext&, runtime::Span<BackendOption>& options) {
  return contain("Reading an option", [&] { return get_process_options(options); });
}

void TensorRTBackend::destroy(DelegateHandle* handle) const {
  LoadedEngine::Owner(static_cast<LoadedEngine*>(handle)).reset();
}

}  // namespace executorch::backends::tensorrt
