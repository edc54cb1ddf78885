// What `bench operators` times: each operator's encoding and adding beside passes that only move
// memory.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_times.h"
#include "cli/text.h"
#include "laconic/operators/operator.h"

namespace laconic::cli {

struct SpeedOptions {
  std::vector<std::string> specs;  // none: every example of every registered stage
  std::string input = "normal";    // as in cli/gradient.h
  std::size_t count = 25'000'000;
  unsigned repeats = 9;
};

// One operator. feedback: encoding two arrays that are mixed, and writing what is left; four: four
// sections are opened and added block by block, as a step does; touch: a number is added to each of
// the entries that a selector chose, which adding a section cannot do without.
struct Speed {
  Operator op;
  std::size_t bytes = 0;
  Times encode = {}, feedback = {}, add = {}, four = {}, touch = {};
  Hint hint = {};
};

// copy is a memcpy of the array, read a pass that only reads it, and mix one that reads two and
// writes a third past the caches: what encoding and encoding with feedback cannot do without.
struct Speeds {
  std::vector<Speed> rows;
  std::size_t count = 0;
  Times copy = {}, read = {}, mix = {};
};

// A round times every operator once, and beside each one the passes, so that a slow spell of the
// machine meets all of them. One untimed round first touches every page.
Speeds measure_speeds(const SpeedOptions& options, Scratch& scratch);

Json to_json(const Speeds& speeds);

}  // namespace laconic::cli
