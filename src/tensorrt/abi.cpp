#include "tensorrt/abi.h"

#include <algorithm>

namespace executorch::backends::tensorrt::abi {

bool operator==(const Dims& a, const Dims& b) {
  return a.nb_dims == b.nb_dims && (a.nb_dims <= 0 || std::equal(a.d, a.d + a.nb_dims, b.d));
}

std::string to_string(const Dims& dims) {
  if (dims.nb_dims < 0) {
    return "[unknown]";
  }
  std::string text = "[";
  for (int32_t i = 0; i < dims.nb_dims; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims.d[i]);
  }
  return text + "]";
}

}  // namespace executorch::backends::tensorrt::abi
