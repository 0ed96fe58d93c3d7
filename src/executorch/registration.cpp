// Registers the backend and the device allocator when the library is loaded.

#include "executorch/registration.h"

#include "executorch/backend.h"
#include "log/log.h"

namespace executorch::backends::tensorrt {

namespace {

// The backend is never destroyed: ExecuTorch keeps the pointer, and programs may be freed while the process
// ends.
Registration register_all() {
  const runtime::Error error = runtime::register_backend({kBackendName, new TensorRTBackend});
  if (error != runtime::Error::Ok) {
    DELEGATE_LOG(
        Error,
        "%s could not be registered: another library has this name already, or ExecuTorch's table is full.",
        kBackendName);
    return {{false, "not registered, because the backend is not"}, error};
  }
  return {register_device_allocator_if_none(), error};
}

[[maybe_unused]] const Registration& registered_at_load = registration();

}  // namespace

const Registration& registration() {
  static const auto* const done = new Registration(register_all());
  return *done;
}

}  // namespace executorch::backends::tensorrt
