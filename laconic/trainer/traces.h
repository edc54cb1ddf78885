// What a run leaves in its folder beside the checkpoint.
#pragma once

#include <string>
#include <vector>

#include "laconic/layout/layout.h"
#include "laconic/trainer/metrics.h"

namespace laconic::trainer {

// metrics.jsonl: one line per evaluation.
void write_metrics(const std::string& path, const std::vector<Evaluation>& evaluations);

// Files with a line of JSON for a step: guard.jsonl has the guard's decisions, steps.jsonl what
// each step took. A run that goes on from a step has the lines before it.
void keep_lines_before(const std::string& path, std::uint64_t step);
void add_lines(const std::string& path, const std::vector<std::string>& lines);

// What one step took, in seconds.
struct StepTrace {
  std::uint64_t step = 0;
  Lane lane = Lane::recipe;
  double compute = 0, exchange = 0,
         update = 0;        // one after the other; exchange: what was not hidden
  std::uint64_t bytes = 0;  // sent
  std::vector<UnitTimes> units = {};
};

// As a line: of the exchange `parts` says by how much each unit made it longer, in the order in
// which their means were written, and `vote` what was left.
std::string write_step(const StepTrace& trace);

// model.lac: a frame with one section per tensor.
void write_model(const std::string& path, const Model& model, std::span<const float> parameters);

// gradients-step-N.npz: one array per tensor.
void write_gradient(const std::string& path, const Model& model, std::span<const float> gradient);

}  // namespace laconic::trainer
