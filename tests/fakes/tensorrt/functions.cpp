#include "functions.h"

#include <executorch/runtime/core/portable_type/bfloat16.h>
#include <executorch/runtime/core/portable_type/half.h>

#include <algorithm>
#include <cstring>

namespace fake_tensorrt {

namespace {

using BFloat16 = executorch::runtime::etensor::BFloat16;
using Half = executorch::runtime::etensor::Half;

bool is_integer(abi::DataType dtype) {
  switch (dtype) {
    case abi::DataType::kInt8:
    case abi::DataType::kInt32:
    case abi::DataType::kBool:
    case abi::DataType::kUInt8:
    case abi::DataType::kInt64:
      return true;
    default:
      return false;
  }
}

/// Calls `body` with a null pointer of the C++ type.
template <class Body>
void with_type(abi::DataType dtype, const Body& body) {
  switch (dtype) {
    case abi::DataType::kFloat:
      return body(static_cast<float*>(nullptr));
    case abi::DataType::kHalf:
      return body(static_cast<Half*>(nullptr));
    case abi::DataType::kBF16:
      return body(static_cast<BFloat16*>(nullptr));
    case abi::DataType::kInt8:
      return body(static_cast<int8_t*>(nullptr));
    case abi::DataType::kInt32:
      return body(static_cast<int32_t*>(nullptr));
    case abi::DataType::kInt64:
      return body(static_cast<int64_t*>(nullptr));
    default:
      return body(static_cast<uint8_t*>(nullptr));
  }
}

template <class Wide>
Wide read(const Operand& operand, int64_t index) {
  Wide value{};
  with_type(operand.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<Wide>(static_cast<T*>(operand.data)[index]);
    } else {
      value = static_cast<Wide>(static_cast<float>(static_cast<T*>(operand.data)[index]));
    }
  });
  return value;
}

template <class Wide>
void write(const Operand& operand, int64_t index, Wide value) {
  if (operand.dtype == abi::DataType::kBool) {
    static_cast<uint8_t*>(operand.data)[index] = value != Wide{} ? 1 : 0;
    return;
  }
  with_type(operand.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (std::is_integral_v<T>) {
      static_cast<T*>(operand.data)[index] = static_cast<T>(value);
    } else {
      static_cast<T*>(operand.data)[index] = static_cast<T>(static_cast<float>(value));
    }
  });
}

double coefficient(const Operation& operation, size_t index) {
  return index < operation.coefficients.size() ? operation.coefficients[index] : 1.0;
}

// A 0-D input serves every element.
template <class Wide>
Wide read_broadcast(const Operand& operand, int64_t index) {
  return read<Wide>(operand, operand.shape.nb_dims == 0 ? 0 : index);
}

template <class Wide>
void multiply(const std::vector<Operand>& inputs, const Operand& output) {
  for (int64_t i = 0; i < volume(output.shape); ++i) {
    Wide value = 1;
    for (const Operand& input : inputs) {
      value *= read_broadcast<Wide>(input, i);
    }
    write(output, i, value);
  }
}

template <class Wide>
void linear(const Operation& operation, const std::vector<Operand>& inputs, const Operand& output) {
  for (int64_t i = 0; i < volume(output.shape); ++i) {
    Wide value = static_cast<Wide>(operation.constant);
    for (size_t k = 0; k < inputs.size(); ++k) {
      value += static_cast<Wide>(coefficient(operation, k)) * read_broadcast<Wide>(inputs[k], i);
    }
    write(output, i, value);
  }
}

template <class Wide>
void sum(const std::vector<Operand>& inputs, const Operand& output) {
  Wide value{};
  for (int64_t i = 0; i < volume(inputs[0].shape); ++i) {
    value += read<Wide>(inputs[0], i);
  }
  write(output, 0, value);
}

void greater(const Operation& operation, const std::vector<Operand>& inputs, const Operand& output) {
  for (int64_t i = 0; i < volume(output.shape); ++i) {
    write(output, i, read<double>(inputs[0], i) > operation.constant ? 1.0 : 0.0);
  }
}

/// Bytes of one step along `dim`: everything behind it.
int64_t row_bytes(const Operand& operand, int32_t dim) {
  int64_t bytes = static_cast<int64_t>(size_of(operand.dtype));
  for (int32_t i = dim + 1; i < operand.shape.nb_dims; ++i) {
    bytes *= operand.shape.d[i];
  }
  return bytes;
}

void concat(int32_t dim, const std::vector<Operand>& inputs, const Operand& output) {
  int64_t outer = 1;
  for (int32_t i = 0; i < dim; ++i) {
    outer *= output.shape.d[i];
  }
  auto* target = static_cast<char*>(output.data);
  for (int64_t o = 0; o < outer; ++o) {
    for (const Operand& input : inputs) {
      const int64_t bytes = row_bytes(input, dim) * input.shape.d[dim];
      std::copy_n(static_cast<const char*>(input.data) + o * bytes, bytes, target);
      target += bytes;
    }
  }
}

void update(const std::vector<Operand>& inputs, const Operand& output) {
  const int64_t bytes = row_bytes(output, 0);
  if (inputs[0].data != output.data) {
    std::memmove(output.data, inputs[0].data, static_cast<size_t>(bytes * output.shape.d[0]));
  }
  const int64_t position = read<int64_t>(inputs[2], 0);
  std::copy_n(static_cast<const char*>(inputs[1].data), bytes,
              static_cast<char*>(output.data) + position * bytes);
}

bool all_integer(const std::vector<Operand>& inputs) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const Operand& operand) { return is_integer(operand.dtype); });
}

abi::Dims concat_shape(int32_t dim, const std::vector<abi::Dims>& inputs) {
  abi::Dims shape = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    shape.d[dim] += inputs[i].d[dim];
  }
  return shape;
}

abi::Dims broadcast_shape(const std::vector<abi::Dims>& inputs) {
  abi::Dims shape{0, {}};
  for (const abi::Dims& input : inputs) {
    if (shape.nb_dims > 0 && input.nb_dims > 0 && input != shape) {
      return {-1, {}};
    }
    shape = input.nb_dims > 0 ? input : shape;
  }
  return shape;
}

}  // namespace

abi::Dims infer_shape(const Operation& operation, const abi::Dims& declared,
                      const std::vector<abi::Dims>& inputs) {
  if (operation.op == "sum") {
    return {0, {}};
  }
  if (operation.op == "full") {
    return declared;
  }
  if (operation.op == "concat") {
    return concat_shape(operation.dim, inputs);
  }
  if (operation.op == "linear" || operation.op == "multiply") {
    return broadcast_shape(inputs);
  }
  return inputs[0];
}

void compute(const Operation& operation, const std::vector<Operand>& inputs, const Operand& output) {
  if (operation.op == "greater") {
    greater(operation, inputs, output);
  } else if (operation.op == "concat") {
    concat(operation.dim, inputs, output);
  } else if (operation.op == "update") {
    update(inputs, output);
  } else if (operation.op == "sum") {
    all_integer(inputs) ? sum<int64_t>(inputs, output) : sum<double>(inputs, output);
  } else if (operation.op == "multiply") {
    all_integer(inputs) ? multiply<int64_t>(inputs, output) : multiply<double>(inputs, output);
  } else if (all_integer(inputs) && is_integer(output.dtype)) {
    linear<int64_t>(operation, inputs, output);
  } else {
    linear<double>(operation, inputs, output);
  }
}

}  // namespace fake_tensorrt
