// Tensors from and to raw files (C order, the method's own types), and a look at their largest values.
#pragma once

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using Shape = std::vector<executorch::aten::SizesType>;

/// Makes a host tensor of `shape` from the bytes of a file, which must be as many as the tensor has.
inline executorch::extension::TensorPtr read_tensor(const std::string& path, const Shape& shape,
                                                    executorch::aten::ScalarType type) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("Cannot open " + path + ". Check the path.");
  std::vector<uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
  const size_t expected = std::accumulate(shape.begin(), shape.end(), executorch::runtime::elementSize(type),
                                          std::multiplies<size_t>());
  if (bytes.size() != expected) {
    throw std::runtime_error(path + " holds " + std::to_string(bytes.size()) + " bytes, but this " +
                             executorch::runtime::toString(type) + " input takes " +
                             std::to_string(expected) +
                             ". Write it in C order, or give its shape with --shape.");
  }
  return executorch::extension::make_tensor_ptr(shape, std::move(bytes), type);
}

inline void write_tensor(const std::string& path, const executorch::aten::Tensor& tensor) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(tensor.const_data_ptr()),
             static_cast<std::streamsize>(tensor.nbytes()));
  if (!file.flush())
    throw std::runtime_error("Cannot write " + path + ". Check that its folder exists and has room.");
}

inline std::vector<double> to_doubles(const executorch::aten::Tensor& tensor) {
  std::vector<double> values;
  executorch::runtime::KernelRuntimeContext context;  // where the macro reports a type that it does not know
  ET_SWITCH_REALHBBF16_TYPES(tensor.scalar_type(), context, "to_doubles", T, [&] {
    const T* data = tensor.const_data_ptr<T>();
    for (ssize_t i = 0; i < tensor.numel(); ++i) values.push_back(static_cast<double>(data[i]));
  });
  return values;
}

/// Prints type, shape and the five largest values with their positions in C order.
inline void print_tensor(size_t index, const executorch::aten::Tensor& tensor) {
  std::printf("output %zu: %s [", index, executorch::runtime::toString(tensor.scalar_type()));
  for (ssize_t d = 0; d < tensor.dim(); ++d)
    std::printf("%s%d", d > 0 ? ", " : "", static_cast<int>(tensor.size(d)));
  std::printf("], largest values\n");
  const std::vector<double> values = to_doubles(tensor);
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto end = order.begin() + static_cast<ptrdiff_t>(std::min<size_t>(5, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](size_t a, size_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  for (auto i = order.begin(); i != end; ++i) std::printf("  %6zu  %.6g\n", *i, values[*i]);
}
