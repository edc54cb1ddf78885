// Two ranks of a small step, one of which is an input.
#pragma once

#include "fuzz/fuzz.h"
#include "laconic/exchange/aggregator.h"

namespace laconic::fuzz {

inline const Model kStepModel = {{"w", {6, 5}}, {"b", {3}}};

struct StepJob {
  const char *exchange, *op, *memory;
};

inline constexpr StepJob kStepJobs[] = {{"gather", "natural", "none"},
                                        {"gather", "topk:0.2", "feedback"},
                                        {"gather", "topk:0.2", "dgc"},
                                        {"gather", "natural:8+entropy", "none"},
                                        {"sharded", "natural", "none"},
                                        {"sharded", "topk:0.2", "feedback"},
                                        {"sparse", "topk:0.2", "feedback"},
                                        {"summed", "randomk:0.5", "none"},
                                        {"powersgd", "identity", "none"},
                                        {"dense", "identity", "none"},
                                        {"dense:ordered", "identity", "none"},
                                        {"global:3", "identity", "none"},
                                        {"global:1,clip=2.5", "identity", "none"},
                                        {"global:100,2", "identity", "none"},
                                        {"arc:0.2,1", "identity", "none"}};

inline std::unique_ptr<Aggregator> step_aggregator(const StepJob& job, Transport& transport) {
  return make_aggregator(job.exchange,
                         {.transport = transport,
                          .model = kStepModel,
                          .plan = make_plan(kStepModel, "tensor", parse_operator(job.op)),
                          .memory = job.memory,
                          .seed = 5,
                          .unit_bytes = 1});
}

inline std::vector<float> step_gradient(int rank) {
  std::vector<float> gradient(count_of(kStepModel));
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>(i % 7) - 3 + static_cast<float>(rank);
  return gradient;
}

}  // namespace laconic::fuzz
