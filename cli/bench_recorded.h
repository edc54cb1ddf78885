// Speeds kept in a file, so that a change that makes an operator slow is noticed.
#pragma once

#include <string>

#include "cli/bench_speeds.h"

namespace laconic::cli {

// Writes the ratios of encode, feedback and add to memcpy, as JSON.
void record_speeds(const std::string& path, const SpeedOptions& options, Scratch& scratch);

// Measures the same operators on as many entries and throws SystemError, naming them, when ratios
// are more than twice those in the file. What fails is measured again a few times, and the best
// counts: another process may have had the machine. Throws UsageError for an operator that the file
// does not have.
void compare_speeds(const std::string& path, const SpeedOptions& options, Scratch& scratch);

}  // namespace laconic::cli
