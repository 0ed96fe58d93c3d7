#pragma once

#include <pybind11/pybind11.h>

namespace executorch::backends::tensorrt {

/// Adds the class `BareEngines` to a Python module.
void add_bare_engines(pybind11::module_& module);

}  // namespace executorch::backends::tensorrt
