// laconic train, compare and bench training live in a program of their own: linking libtorch costs
// 0.4 s at every start.
#include "cli/command.h"
#include "cli/trainer/summaries.h"

namespace laconic::cli {
namespace {

const RegisterCommand train{
    {.name = "train", .summary = kTrainSummary, .program = kTrainerProgram}};
const RegisterCommand compare{
    {.name = "compare", .summary = kCompareSummary, .program = kTrainerProgram}};
const RegisterCommand bench_training{
    {.name = "bench training", .summary = kBenchTrainingSummary, .program = kTrainerProgram}};

}  // namespace
}  // namespace laconic::cli
