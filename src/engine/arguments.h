#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include <string>

#include "engine/bindings.h"

namespace executorch::backends::tensorrt {

using executorch::aten::Tensor;

/// The shape of a tensor; `nb_dims` -1 when it has more than eight dimensions, which no engine has.
abi::Dims shape_of(const Tensor& tensor);

/// Checks an input against its binding: type, rank, every size against the optimization profile, memory
/// order, null. Refuses with `InvalidArgument` and a sentence that names engine and input, what was given and
/// what is allowed.
Error check_input(const Binding& binding, const Tensor& tensor, const std::string& label);

/// Gives an output tensor the shape that the engine will write, then checks type, memory order and null.
///
/// One element of rank 0 and one of rank 1 are the same to a program whose scalars crossed a boundary, so
/// such a tensor keeps its rank. A tensor that cannot be resized is refused with its name and both shapes.
Error prepare_output(const Binding& binding, const abi::Dims& shape, Tensor& tensor,
                     const std::string& label);

}  // namespace executorch::backends::tensorrt
