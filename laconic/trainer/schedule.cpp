// Warm-up and decay.
#include "laconic/trainer/schedule.h"

#include <algorithm>
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/trainer/exact.h"

namespace laconic::trainer {

void check_schedule(const Schedule& schedule) {
  if (!(schedule.lr > 0 && std::isfinite(schedule.lr)))
    throw UsageError("learning rate " + std::to_string(schedule.lr) + "; allowed: above 0");
  if (schedule.warmup > kMostSteps)
    throw UsageError("a warm-up of " + std::to_string(schedule.warmup) + " steps; allowed: 0 to " +
                     std::to_string(kMostSteps));
  if (schedule.decay != "constant" && schedule.decay != "linear" && schedule.decay != "cosine")
    throw UsageError("no decay '" + schedule.decay + "'; known: constant cosine linear");
}

float Schedule::at(std::uint64_t step) const {
  if (step < warmup) return lr * static_cast<float>(step + 1) / static_cast<float>(warmup + 1);
  if (decay == "constant" || steps <= warmup) return lr;
  const double part = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  const double factor = decay == "linear" ? 1 - part : (1 + cosine(part)) / 2;
  return static_cast<float>(lr * std::max(0.0, factor));
}

}  // namespace laconic::trainer
