// A plan's situation with a gradient recorded in training.
#pragma once

#include "laconic/planner/forecast.h"
#include "tests/recorded.h"

namespace laconic::testing {

inline Situation recorded() {
  Samples samples{.name = "lenet5",
                  .model = {{"conv1.weight", {20, 1, 5, 5}},
                            {"conv1.bias", {20}},
                            {"conv2.weight", {50, 20, 5, 5}},
                            {"conv2.bias", {50}},
                            {"fc1.weight", {500, 800}},
                            {"fc1.bias", {500}},
                            {"fc2.weight", {10, 500}},
                            {"fc2.bias", {10}}}};
  std::vector<float> gradient = recorded_gradient();
  gradient.resize(count_of(samples.model));
  samples.gradients.push_back(std::move(gradient));
  return {.samples = std::move(samples), .workers = 4, .link = {}};
}

}  // namespace laconic::testing
