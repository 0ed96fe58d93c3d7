#pragma once

#include <executorch/runtime/backend/interface.h>

#include "executorch/c_api.h"

namespace executorch::backends::tensorrt {

/// Says that a load on this thread gave `handle`. Whoever loads a method through another binding of
/// ExecuTorch learns in this way which delegate that brought (see `tensorrt_executorch_last_load`).
void remember_load(runtime::DelegateHandle* handle);

}  // namespace executorch::backends::tensorrt
