// Handing over to a program beside this one.
#include "cli/program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "laconic/base/errors.h"

namespace laconic::cli {
namespace {

std::filesystem::path beside(const std::string& program) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / program;
}

}  // namespace

std::string default_command() {
  const Command* compare = commands().find("compare");
  const bool there =
      compare && (compare->program.empty() || std::filesystem::exists(beside(compare->program)));
  return there ? "compare" : "demo";
}

void hand_over(const std::string& program, int argc, char** argv) {
  const auto path = beside(program);
  if (!std::filesystem::exists(path))
    throw UsageError(
        "this build has no trainer; configure with -DLACONIC_TRAINER=ON, which needs libtorch");
  // Several workers train at once: a BLAS that starts threads of its own costs a quarter of the
  // speed.
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
  setenv("OMP_NUM_THREADS", "1", 0);
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  throw SystemError("cannot run " + path.string() + ": " + std::generic_category().message(errno));
}

}  // namespace laconic::cli
