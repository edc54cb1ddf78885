// What each recipe would give on a link: bytes, kernels, step times, errors. Bytes are of frames
// that are really written, seconds of kernels are measured here, the rest is the clock's.
#pragma once

#include "laconic/planner/costs.h"

namespace laconic {

struct Situation {
  Samples samples = {};
  int workers = 16;
  Link link = {};
  // Forward, backward and update of one batch, by all workers at once.
  double compute_seconds = 0;
  std::size_t bucket_bytes = std::size_t{1} << 20;  // as trainers hand over gradients
  bool packets = true;   // messages travel by TCP in Ethernet frames of 1514 bytes
  unsigned repeats = 3;  // of measurements
  unsigned cores = 0;    // that all workers have in common; 0: each has as many as it wants
  bool computes = true;  // on these cores; else computing is a clock, as in `bench plan`
  Stack stack = {};      // of the system on these cores
};

inline constexpr int kMostWorkers = 10'000;
inline constexpr unsigned kMostCores = 100'000;

Shares shares_of(const Situation& situation);

// Throws UsageError, naming the value and what is allowed.
void require_sound(const Situation& situation);

// Of all that one step computes, the part that is the backward pass: twice the forward pass.
inline constexpr double kBackwardShare = 2.0 / 3;

// Seconds for a batch where nobody has measured them: 6 floating-point operations per parameter,
// use and sample (Kaplan et al., arXiv 2001.08361, section 2.1), a million million per second.
double estimated_compute(const Samples& samples, std::uint64_t batch);

struct Forecast {
  Recipe recipe;
  std::string obstacle = {};  // why it cannot run here; nothing else is set then
  double bytes = 0;           // that rank 0 sends in a step, in the mean over a round of local ones
  double messages = 0;        // and in how many messages
  bool exact = true;          // bytes are those of the whole model
  double kernel_seconds = 0;  // of a core and a step
  double link_seconds = 0;    // the busier direction of the busiest rank's link, a step
  double step_seconds = 0;
  double exposed_seconds = 0;            // of that, beyond computing
  double over_dense = 0, over_bf16 = 0;  // how much faster a step is
  std::optional<double> error = {};      // as measure_error
};

// The 16-bit baseline: halves to owners of shards, sums of halves back.
Recipe bf16_recipe();

Forecast forecast_of(const Recipe& recipe, const Situation& situation);

// Fastest first, dense and bf16 among them; what cannot run comes last. `tell` hears each name
// before its turn.
std::vector<Forecast> forecast_all(const std::vector<Recipe>& recipes, const Situation& situation,
                                   const std::function<void(const std::string&)>& tell = {});

// By unit: the slices of a plan that are complete with each bucket, in the order of a backward
// pass, and the share of that pass after which they are. A tensor of two or more dimensions takes
// as long as any other, the rest no time.
struct UnitSlices {
  double ready = 0;
  std::vector<std::size_t> slices;
};
std::vector<UnitSlices> units_of(const Model& model, const Plan& plan, std::size_t bucket_bytes);

// Bytes of the frames that rank 0 writes in a step of `gather`.
std::uint64_t frame_bytes(const Plan& plan, const Situation& situation);

}  // namespace laconic
