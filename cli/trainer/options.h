// Options that train and compare share.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "laconic/trainer/train.h"

namespace CLI {
class App;
}

namespace laconic::cli {

// The settings to train a recipe with: what it was tuned with, unless an option says otherwise.
using SettingsFor = std::function<trainer::Settings(const Recipe&)>;

// Declares --data, --model, --workers, --batch, --epochs, --steps, --lr and the optimiser's
// options. What is returned may be called once they are parsed, as long as `settings` lives.
SettingsFor add_training_options(CLI::App& app, std::string& data, trainer::Settings& settings);

// Becomes true at the first Ctrl-C (or SIGTERM); another half a second later ends the program at
// once.
const std::atomic<bool>& interrupted();

// Ends a command that has been interrupted, on this rank or on another, and has said what is left.
[[noreturn]] void end_interrupted();

}  // namespace laconic::cli
