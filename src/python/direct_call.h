#pragma once

#include <pybind11/pybind11.h>

namespace executorch::backends::tensorrt {

/// Adds `last_load` and `direct_call` to the module `_native`.
void add_direct_calls(pybind11::module_& module);

}  // namespace executorch::backends::tensorrt
