#pragma once

// What fake engines compute. Integers are exact; everything else is computed in double and rounded to the
// output's type.
//
//   linear   sum of coefficients[i] * inputs[i] (1 when missing), plus constant; shapes equal. Also:
//   identity, cast greater  inputs[0] > constant sum      all elements of inputs[0], 0-D concat   inputs
//   along `dim` full     `constant` in the output's own static shape update   inputs[0] (a cache [..]) with
//   row inputs[2] (an int64 position) along dimension 0 replaced by inputs[1]

#include <vector>

#include "description.h"

namespace fake_tensorrt {

struct Operand {
  abi::DataType dtype;
  abi::Dims shape;
  void* data;  ///< host-readable
};

/// The output's shape; nb_dims -1 when the inputs do not fit together. The sizes that `full` declares as -1
/// stay so, as those that depend on data do.
abi::Dims infer_shape(const Operation& operation, const abi::Dims& declared,
                      const std::vector<abi::Dims>& inputs);

/// Computes one output. Input and output may be the same memory.
void compute(const Operation& operation, const std::vector<Operand>& inputs, const Operand& output);

}  // namespace fake_tensorrt
