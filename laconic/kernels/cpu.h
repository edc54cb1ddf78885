// Which instruction set the kernels run on. Chosen at run time; every choice gives the same bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace laconic {

// The instruction sets this machine and this build have, best first: e.g. avx3 avx2 sse4 ssse3
// scalar.
std::vector<std::string> cpu_targets();

// Forces one of them by name, or "auto" for the best; for the whole process. Not to be called while
// kernels run.
void use_cpu(std::string_view name);

// The one in use.
std::string cpu_in_use();

}  // namespace laconic
