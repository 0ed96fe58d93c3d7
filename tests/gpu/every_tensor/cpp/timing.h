// Times of variants that take turns, so that a drift of the machine meets all of them alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace timing {

using Work = std::function<void()>;

inline double microseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

/// The median time of each variant in microseconds, after a tenth of the rounds that do not count.
inline std::vector<double> medians(const std::vector<Work>& variants, int rounds) {
  std::vector<std::vector<double>> times(variants.size());
  for (int round = -rounds / 10; round < rounds; ++round) {
    for (size_t i = 0; i < variants.size(); ++i) {
      const double time = microseconds(variants[i]);
      if (round >= 0) times[i].push_back(time);
    }
  }
  std::vector<double> result;
  for (auto& each : times) {
    std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
    result.push_back(each[each.size() / 2]);
  }
  return result;
}

}  // namespace timing
