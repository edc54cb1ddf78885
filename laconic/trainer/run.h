// One run as all its workers see it: what does not change while they train.
#pragma once

#include <optional>
#include <string>
#include <utility>

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

// A run's hold on the folder of its traces, from other processes: the system ends it with them.
class FolderHold {
 public:
  FolderHold() = default;
  explicit FolderHold(int descriptor) : descriptor_(descriptor) {}
  FolderHold(FolderHold&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderHold& operator=(FolderHold&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FolderHold();

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// The folder for a run's traces, without what a killed run was writing when it was killed. Throws
// UsageError while another run holds it.
FolderHold make_folder(const std::string& folder);

// Throws that, too, and takes no hold: ranks of one run may ask at the same time.
void require_free(const std::string& folder);

}  // namespace laconic::trainer
