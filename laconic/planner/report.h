// A whole plan from a request to its JSON: what the program, C and Python share.
#pragma once

#include "laconic/planner/adaptive.h"

namespace laconic {

struct PlanRequest {
  std::string model = "resnet50";
  std::vector<std::string> gradients = {};  // files
  int workers = 16;
  std::string link = "100mbit,1ms";
  std::optional<double> compute_seconds = {};  // nothing: estimated_compute of `batch`
  std::uint64_t batch = 32;
  std::vector<std::string> recipes = {};  // names or files; none: all that are built in
  std::uint64_t bucket_bytes = std::uint64_t{1} << 20;
  std::string headers = "tcp";  // or none: what travels beside the messages
  unsigned repeats = 3;
  unsigned cores = 0;      // of one machine, which all workers share; 0: each has cores of its own
  std::string stack = {};  // as parse_stack's, of these cores; nothing: measured here
  bool computes = true;    // as Situation's
  std::string adaptive = {};  // an operator, or powersgd, whose number is chosen by tensor
  Budget budget = {};
};

struct PlanReport {
  PlanRequest request;
  Situation situation;
  std::optional<Adaptive> adaptive = {};
  std::vector<Forecast> forecasts = {};  // fastest first
};

// `tell` hears what is being done.
PlanReport make_report(const PlanRequest& request,
                       const std::function<void(const std::string&)>& tell = {});

// One JSON object with the names of the members above as keys ("bytes" and "error" for the budget),
// all of which may be missing. Throws UsageError that names the key.
PlanRequest read_request(std::string_view json);

// One JSON object.
std::string write_report(const PlanReport& report);

// What runs a recipe in the trainer, and in Python.
std::string command_of(const Recipe& recipe, const PlanRequest& request);
std::string python_of(const Recipe& recipe);

}  // namespace laconic
