// The table of subcommands.
#include "cli/command.h"

namespace laconic::cli {
namespace {

Registry<Command>& registry() {
  static Registry<Command> commands("command");
  return commands;
}

}  // namespace

const Registry<Command>& commands() { return registry(); }

RegisterCommand::RegisterCommand(Command command) { registry().add(std::move(command)); }

}  // namespace laconic::cli
