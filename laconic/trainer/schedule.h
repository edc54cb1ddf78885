// The learning rate of a step.
#pragma once

#include <cstdint>
#include <string>

namespace laconic::trainer {

// Far above any run; sums of a few such numbers are still numbers.
inline constexpr std::uint64_t kMostSteps = 1'000'000'000'000;

struct Schedule {
  float lr = 0.05F;
  std::uint64_t warmup = 0;  // steps of linear warm-up
  std::string decay =
      "constant";           // constant, linear or cosine, from the end of warm-up to the last step
  std::uint64_t steps = 1;  // of the whole run

  float at(std::uint64_t step) const;
};

void check_schedule(const Schedule& schedule);

}  // namespace laconic::trainer
