// The other programs that commands live in.
#pragma once

#include <string>

namespace laconic::cli {

// What plain `laconic` runs: compare where the trainer was built, else demo.
std::string default_command();

// Becomes the program of that name in this program's folder, with the same arguments. Throws
// UsageError when it is not there.
[[noreturn]] void hand_over(const std::string& program, int argc, char** argv);

}  // namespace laconic::cli
