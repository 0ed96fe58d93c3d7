// Registers aten::erfinv.out with ExecuTorch when this library is loaded.
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/kernel/kernel_includes.h>

#include <cmath>
#include <limits>

namespace {

using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

/// The inverse of the error function, to double precision: a start by Winitzki's formula, then Newton's
/// method.
double inverse_erf(double x) {
  if (std::abs(x) >= 1) {
    return std::abs(x) > 1 ? std::numeric_limits<double>::quiet_NaN()
                           : std::copysign(std::numeric_limits<double>::infinity(), x);
  }
  constexpr double kPi = 3.14159265358979323846;
  constexpr double kWinitzki = 0.147;
  const double log_term = std::log1p(-x * x);
  const double half = 2 / (kPi * kWinitzki) + log_term / 2;
  double y = std::copysign(std::sqrt(std::sqrt(half * half - log_term / kWinitzki) - half), x);
  for (int step = 0; step < 4; ++step) {
    y -= (std::erf(y) - x) * std::sqrt(kPi) / 2 * std::exp(y * y);
  }
  return y;
}

Tensor& erfinv_out(KernelRuntimeContext& context, const Tensor& self, Tensor& out) {
  ET_KERNEL_CHECK(context, executorch::runtime::resize_tensor(out, self.sizes()) == Error::Ok,
                  InvalidArgument, out);
  ET_SWITCH_FLOATHBF16_TYPES(self.scalar_type(), context, "erfinv.out", T, [&] {
    const T* from = self.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (ssize_t i = 0; i < self.numel(); ++i)
      to[i] = static_cast<T>(inverse_erf(static_cast<double>(from[i])));
  });
  return out;
}

EXECUTORCH_LIBRARY(aten, "erfinv.out", erfinv_out);

}  // namespace
