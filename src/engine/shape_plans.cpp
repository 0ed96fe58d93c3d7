#include "engine/shape_plans.h"

#include <algorithm>
#include <utility>

namespace executorch::backends::tensorrt {

const std::vector<abi::Dims>* ShapePlans::find(const std::vector<abi::Dims>& inputs) {
  const auto found =
      std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) { return plan.inputs == inputs; });
  if (found == plans_.end()) {
    return nullptr;
  }
  std::rotate(plans_.begin(), found, found + 1);
  return &plans_[0].outputs;
}

const std::vector<abi::Dims>& ShapePlans::add(const std::vector<abi::Dims>& inputs,
                                              std::vector<abi::Dims> outputs) {
  if (plans_.size() == kPlans) {
    plans_.pop_back();
  }
  plans_.insert(plans_.begin(), {inputs, std::move(outputs)});
  return plans_[0].outputs;
}

}  // namespace executorch::backends::tensorrt
