// Rank 2 is killed; under every exchange the others stop within their time, are told who does not
// answer, and have lost nothing: mpirun --enable-recovery -n 4.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "laconic/transports/mpi.h"
#include "tests/exchange/failures.h"
#include "tests/transports/conformance.h"

namespace laconic::testing {
namespace {

constexpr int kRanks = 4, kVictim = 2;
constexpr double kTimeout = 0.5;

// An aggregator on a transport of its own, since a transport that has failed stays failed.
struct Case {
  Job job;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Aggregator> aggregator;
};

// The first step takes the time it takes; the aggregator that goes on from it is impatient.
Case after_one_step(const Job& job) {
  Case one{job, make_mpi_transport(), nullptr};
  const auto patient = make(job, *one.transport, 120);
  auto gradient = gradient_of(one.transport->rank(), 5);
  patient->average(gradient, {.step = 5});
  one.aggregator = make(job, *one.transport, kTimeout);
  one.aggregator->load(patient->save());
  return one;
}

using Text = std::array<char, 512>;

// Rank 0 hears what another rank was told.
std::vector<std::string> heard_by_first(Transport& aside, const std::string& told) {
  Text mine{};
  std::strncpy(mine.data(), told.c_str(), mine.size() - 1);
  const auto bytes = [](Text& text) {
    return std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
  };
  if (aside.rank() != 0) {
    exchange(aside, {{0, bytes(mine)}}, {}, patient("sentences"));
    return {};
  }
  Text of_1{}, of_3{};
  exchange(aside, {}, {Receive::exactly(1, bytes(of_1)), Receive::exactly(3, bytes(of_3))},
           patient("sentences"));
  return {told, of_1.data(), of_3.data()};
}

void expect_failures(Transport& aside, const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const End end = steps_until_failure(*one.aggregator, aside.rank());
    EXPECT_TRUE(has(end.sentence, "not answer") && has(end.sentence, "within 0.5 s"))
        << one.job.exchange << ": " << end.sentence;
    EXPECT_EQ(end.rank, kVictim) << end.sentence;
    const bool well = !::testing::Test::HasFailure();
    const auto all = heard_by_first(aside, well ? end.sentence : "failed: " + end.sentence);
    for (const std::string& sentence : all) {
      std::printf("%s: %s\n", one.job.exchange.c_str(), sentence.c_str());
      EXPECT_TRUE(has(sentence, "rank 2 does not answer")) << sentence;
    }
  }
}

TEST(Killed, EveryExchangeTellsTheOthers) {
  const auto aside = make_mpi_transport();
  ASSERT_EQ(aside->size(), kRanks);
  std::vector<Case> cases;
  for (const Job& job : one_of_each(kRanks)) cases.push_back(after_one_step(job));
  meet(*aside);
  if (aside->rank() == kVictim) std::raise(SIGKILL);
  expect_failures(*aside, cases);
  if (aside->rank() == 0 && !HasFailure())
    std::printf("rank 2 is named under all %zu exchanges\n", cases.size());
  std::fflush(stdout);
  std::_Exit(HasFailure());  // MPI_Finalize, and the ends of transports, would wait for the dead
}

}  // namespace
}  // namespace laconic::testing
