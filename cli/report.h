// The report page, for every command that writes one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/text.h"

namespace laconic::cli {

// web/report.html with this data in place: one file that needs nothing else. The data's "kind" says
// what is shown: "consensus", "run" (one training, step by step), or without one the comparison of
// recipes.
std::string page_of(const Json& report);

}  // namespace laconic::cli
