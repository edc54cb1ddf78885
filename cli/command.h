// A subcommand of the program. Each is one file that registers itself; main.cpp only dispatches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "laconic/base/registry.h"

namespace CLI {
class App;
}

namespace laconic::cli {

// Options that every subcommand takes.
struct Globals {
  std::string cpu = "auto";
  unsigned threads = 1;
  std::string command = {};  // as it was typed, for a shell to read again
};

// Thrown by a command that a signal has ended before its time, when it has kept what it could and
// said so. No std::exception: nothing has failed.
struct Stopped {
  int signal;
};

using Run = std::function<void(const Globals&)>;

struct Command {
  std::string name;     // "compress", or "bench operators" for one that stands below another
  std::string summary;  // one sentence
  std::vector<std::string> examples = {};
  // Declares the options and returns what to run once they are parsed. None: a heading for those
  // below it.
  std::function<Run(CLI::App&)> attach = {};
  // The program beside this one that has the command, because of what it links. Arguments go there
  // as they are.
  std::string program = {};
};

const Registry<Command>& commands();

// Registers a subcommand: `const RegisterCommand mine{{.name = "mine", ...}};` at namespace scope.
struct RegisterCommand {
  explicit RegisterCommand(Command command);
};

}  // namespace laconic::cli
