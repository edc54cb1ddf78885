// A rank that dies or falls silent ends the step of all others with a sentence, and leaves no
// trace.
#include "tests/exchange/failures.h"
#include "laconic/transports/faulty.h"

namespace laconic::testing {
namespace {

constexpr int kRanks = 3;

// All ranks' ends when this happens to one rank in an exchange of its own. Its aggregator goes with
// its end, so that those who wait for it are told at once.
std::vector<End> ends_with(const Job& job, int victim, const Fault& fault, double timeout) {
  std::vector<End> ends(kRanks);
  expect_no_errors(with_ends(make_thread_transports(kRanks), [&](std::unique_ptr<Transport>& end) {
    const int rank = end->rank();
    end = make_faulty_transport(std::move(end),
                                rank == victim ? std::vector{fault} : std::vector<Fault>{});
    ends[static_cast<std::size_t>(rank)] = steps_until_failure(*make(job, *end, timeout), rank);
  }));
  return ends;
}

std::uint64_t exchanges_of_a_step(const Job& job, int rank) {
  std::uint64_t rounds = 0;
  expect_no_errors(on_ranks(kRanks, [&](Transport& transport) {
    auto gradient = gradient_of(transport.rank(), 0);
    make(job, transport)->average(gradient, {});
    if (transport.rank() == rank) rounds = transport.rounds();
  }));
  return rounds;
}

// Every rank names the one that was lost, also when it waits for another that waits for it.
void expect_sentences(const std::vector<End>& ends, int victim) {
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    const std::string& sentence = ends[static_cast<std::size_t>(rank)].sentence;
    const std::string lost = "rank " + std::to_string(victim);
    EXPECT_TRUE(sentence.starts_with(lost + " has left while ") ||
                sentence.starts_with(lost + " does not answer: "))
        << sentence;
    EXPECT_TRUE(has(sentence, "rank " + std::to_string(rank) + " waits for ")) << sentence;
  }
}

// At every point of a step, with all the time in the world: nobody waits for it.
TEST(Failures, ARankThatDiesEndsAllWithASentence) {
  for (const Job& job : one_of_each(kRanks))
    for (const int victim : {0, 1})
      for (std::uint64_t at = 0; at < exchanges_of_a_step(job, victim); ++at) {
        SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + " dies in exchange " +
                     std::to_string(at));
        const auto ends = ends_with(job, victim, {.exchange = at, .kind = Fault::Kind::kill}, 600);
        EXPECT_TRUE(has(ends[static_cast<std::size_t>(victim)].sentence, "killed as planned"));
        expect_sentences(ends, victim);
        for (const End& end : ends) EXPECT_LT(end.seconds, 300);
      }
}

// At the first exchange of a step and in the middle of it. All cases wait at the same time.
TEST(Failures, ARankThatStallsEndsAllWithinTheirTime) {
  constexpr double kTimeout = 0.6, kStall = 1.2;
  constexpr int kVictim = 1;
  std::vector<std::thread> cases;
  for (const Job& job : one_of_each(kRanks)) {
    const std::uint64_t rounds = exchanges_of_a_step(job, kVictim);
    for (const std::uint64_t at : {std::uint64_t{0}, rounds / 2})
      cases.emplace_back([=] {
        SCOPED_TRACE(text_of(job) + ", stalls in exchange " + std::to_string(at));
        const auto ends =
            ends_with(job, kVictim, {.exchange = at, .kind = Fault::Kind::delay, .seconds = kStall},
                      kTimeout);
        expect_sentences(ends, kVictim);
        for (const int rank : {0, 2}) {
          const End& end = ends[static_cast<std::size_t>(rank)];
          EXPECT_TRUE(has(end.sentence, " does not answer")) << end.sentence;
          EXPECT_TRUE(!has(end.sentence, "within 0.6 s") || end.seconds >= kTimeout)
              << end.sentence;
          EXPECT_LT(end.seconds, 30 * kTimeout) << end.sentence;  // and what a busy machine adds
        }
        EXPECT_NE(ends[kVictim].sentence, "went on");
      });
  }
  for (auto& one : cases) one.join();
}

}  // namespace
}  // namespace laconic::testing
