// One run as all its workers see it: what does not change while they train.
#pragma once

#include <optional>
#include <string>

#include "laconic/trainer/checkpoint.h"
#include "laconic/trainer/data.h"
#include "laconic/trainer/settings.h"

namespace laconic::trainer {

struct Run {
  const Settings& settings;
  const Data& data;
  const Output& output;
  const Observer& observer;
  std::uint64_t steps, evaluate_every;
  std::string settings_text;       // JSON, for checkpoints
  std::optional<Checkpoint> from;  // what it goes on from, for as many workers as there are
  std::size_t workers_before;      // before that

  bool leaves_traces() const { return !output.folder.empty(); }
  std::string path(const std::string& name) const { return output.folder + "/" + name; }
};

// Refers to its arguments. Throws UsageError for settings that cannot be, and for a folder that
// holds a run which is not to be gone on with, or one of other settings.
Run make_run(const Settings& settings, const Data& data, const Output& output,
             const Observer& observer);

// The folder for a run's traces, without what a killed run was writing when it was killed.
void make_folder(const std::string& folder);

}  // namespace laconic::trainer
