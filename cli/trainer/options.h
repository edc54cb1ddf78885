// Options that train and compare share.
#pragma once

#include <atomic>
#include <string>

#include "laconic/trainer/train.h"

namespace CLI {
class App;
}

namespace laconic::cli {

// Declares --data, --model, --workers, --batch, --epochs, --steps, --lr and the optimiser's
// options.
void add_training_options(CLI::App& app, std::string& data, trainer::Settings& settings);

// Becomes true at the first Ctrl-C (or SIGTERM); a second one ends the program at once.
const std::atomic<bool>& interrupted();

}  // namespace laconic::cli
