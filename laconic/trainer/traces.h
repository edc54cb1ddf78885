// What a run leaves in its folder beside the checkpoint.
#pragma once

#include <string>
#include <vector>

#include "laconic/layout/layout.h"
#include "laconic/trainer/metrics.h"

namespace laconic::trainer {

// metrics.jsonl: one line per evaluation.
void write_metrics(const std::string& path, const std::vector<Evaluation>& evaluations);

// guard.jsonl: the guard's decisions. A run that goes on from a step has those before it.
void keep_decisions_before(const std::string& path, std::uint64_t step);
void add_decisions(const std::string& path, const std::vector<std::string>& lines);

// model.lac: a frame with one section per tensor.
void write_model(const std::string& path, const Model& model, std::span<const float> parameters);

// gradients-step-N.npz: one array per tensor.
void write_gradient(const std::string& path, const Model& model, std::span<const float> gradient);

}  // namespace laconic::trainer
