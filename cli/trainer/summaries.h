// What the program says of the commands that live in the trainer's.
#pragma once

namespace laconic::cli {

inline constexpr const char* kTrainerProgram = "laconic-train";
inline constexpr const char* kTrainSummary = "Trains a model with several workers and one recipe.";
inline constexpr const char* kCompareSummary =
    "Trains the same model uncompressed and with each recipe; prints a table and writes "
    "report.html.";
inline constexpr const char* kBenchTrainingSummary =
    "Times steps of real training by several recipes, which take turns.";

}  // namespace laconic::cli
