#pragma once

#include <executorch/extension/module/module.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

namespace executorch::backends::tensorrt {

/// ExecuTorch's `Module`, except that it refuses an input whose memory is not laid out as the program states.
///
/// ExecuTorch 1.5 takes the bytes of an input as they lie: a channels-last tensor for a program that was
/// exported with a contiguous one is read wrongly, without an error. Here `execute` and `forward` answer
/// `InvalidArgument`, after one line in the log that names the input and both dim orders. Inputs that are
/// given through `set_input` are not looked at.
class CheckedModule : public extension::Module {
 public:
  using Module::execute;
  using Module::Module;

  runtime::Result<std::vector<runtime::EValue>> execute(const std::string& method,
                                                        const std::vector<runtime::EValue>& inputs) override {
    auto orders = dim_orders(method);
    if (!orders.ok()) {
      return orders.error();
    }
    const size_t count = std::min(inputs.size(), (*orders)->size());
    for (size_t i = 0; i < count; ++i) {
      const DimOrder& wanted = (**orders)[i];
      if (inputs[i].isTensor() && !is_laid_out(inputs[i].toTensor(), wanted)) {
        const auto given = inputs[i].toTensor().dim_order();
        ET_LOG(Error,
               "Input %zu of method \"%s\" has dim order %s, but the program needs %s. Lay the tensor out in "
               "that order, or export the model with an example input in this one.",
               i, method.c_str(), text({given.begin(), given.end()}).c_str(), text(wanted).c_str());
        return runtime::Error::InvalidArgument;
      }
    }
    return Module::execute(method, inputs);
  }

 private:
  using DimOrder = std::vector<executorch::aten::DimOrderType>;  ///< empty for what is no tensor

  runtime::Result<const std::vector<DimOrder>*> dim_orders(const std::string& method) {
    const auto known = dim_orders_.find(method);
    if (known != dim_orders_.end()) {
      return &known->second;
    }
    auto meta = method_meta(method);
    if (!meta.ok()) {
      return meta.error();
    }
    std::vector<DimOrder> orders(meta->num_inputs());
    for (size_t i = 0; i < orders.size(); ++i) {
      auto input = meta->input_tensor_meta(i);
      if (input.ok()) {
        orders[i].assign(input->dim_order().begin(), input->dim_order().end());
      }
    }
    return &dim_orders_.emplace(method, std::move(orders)).first->second;
  }

  /// Dimensions of size 1 may stand anywhere in an order: no element lies elsewhere for it.
  static bool is_laid_out(const executorch::aten::Tensor& tensor, const DimOrder& wanted) {
    const auto given = tensor.dim_order();
    if (given.size() != wanted.size() || tensor.numel() == 0) {
      return true;  // the rank is checked by ExecuTorch
    }
    const auto is_wide = [&](executorch::aten::DimOrderType dim) { return tensor.size(dim) != 1; };
    DimOrder ours, theirs;
    std::copy_if(given.begin(), given.end(), std::back_inserter(ours), is_wide);
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(theirs), is_wide);
    return ours == theirs;
  }

  static std::string text(const DimOrder& order) {
    std::string result = "(";
    for (size_t i = 0; i < order.size(); ++i) {
      result += (i == 0 ? "" : ", ") + std::to_string(order[i]);
    }
    return result + ")";
  }

  std::unordered_map<std::string, std::vector<DimOrder>> dim_orders_;
};

}  // namespace executorch::backends::tensorrt
