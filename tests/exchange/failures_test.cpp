// A rank that dies or falls silent ends the step of all others with a sentence, and leaves no
// trace.
#include "tests/exchange/failures.h"
#include "laconic/transports/faulty.h"
#include "laconic/transports/wrapped.h"

namespace laconic::testing {
namespace {

constexpr int kRanks = 3;
constexpr double kHour = 3600;

// All ranks' ends when this happens to one rank. Its aggregator goes with its end, so that those
// who wait for it are told at once; where it only stalls it is released when the others have ended.
std::vector<End> ends_with(const Job& job, int victim, Fault fault, double timeout) {
  std::vector<End> ends(kRanks);
  fault.released = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> ended = 0;
  expect_no_errors(with_ends(make_thread_transports(kRanks), [&](std::unique_ptr<Transport>& end) {
    const int rank = end->rank();
    end = make_faulty_transport(std::move(end),
                                rank == victim ? std::vector{fault} : std::vector<Fault>{});
    ends[static_cast<std::size_t>(rank)] =
        steps_until_failure(*make(job, *end, rank == victim ? kHour : timeout), rank);
    if (++ended == kRanks - 1) *fault.released = true;
  }));
  return ends;
}

class Counting : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  ~Counting() override { cancel_all(); }
  std::uint64_t messages = 0;

 protected:
  void do_start(Transfer& transfer) override {
    messages += transfer.sends.size();
    WrappedTransport::do_start(transfer);
  }
};

std::uint64_t messages_of_a_step(const Job& job, int rank) {
  std::uint64_t messages = 0;
  expect_no_errors(with_ends(make_thread_transports(kRanks), [&](std::unique_ptr<Transport>& end) {
    Counting counting(std::move(end));
    auto gradient = gradient_of(counting.rank(), 0);
    make(job, counting)->average(gradient, {});
    if (counting.rank() == rank) messages = counting.messages;
  }));
  return messages;
}

// At every message of a step, with all the time in the world: nobody waits for it. Every rank names
// the one that was lost, also when it waits for another that waits for it.
TEST(Failures, ARankThatDiesEndsAllWithASentence) {
  for (const Job& job : one_of_each(kRanks))
    for (const int victim : {0, 1})
      for (std::uint64_t at = 0; at < messages_of_a_step(job, victim); ++at) {
        SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + " dies at message " +
                     std::to_string(at));
        const auto ends = ends_with(job, victim, {.message = at, .kind = Fault::Kind::kill}, kHour);
        for (int rank = 0; rank < kRanks; ++rank) {
          const End& end = ends[static_cast<std::size_t>(rank)];
          const std::string lost = "rank " + std::to_string(victim);
          EXPECT_EQ(end.rank, victim) << end.sentence;
          EXPECT_TRUE(has(end.sentence, rank == victim ? "killed as planned" : lost + " has left "))
              << end.sentence;
        }
      }
}

// Whoever gives up names another rank, and all end.
TEST(Failures, ARankThatStallsEndsAll) {
  constexpr int kVictim = 1;
  for (const Job& job : one_of_each(kRanks)) {
    const std::uint64_t messages = messages_of_a_step(job, kVictim);
    for (const std::uint64_t at : {std::uint64_t{0}, messages / 2}) {
      SCOPED_TRACE(text_of(job) + ", stalls at message " + std::to_string(at));
      const auto ends = ends_with(job, kVictim, {.message = at, .kind = Fault::Kind::stall}, 0.001);
      for (const int rank : {0, 2}) {
        const End& end = ends[static_cast<std::size_t>(rank)];
        EXPECT_TRUE(has(end.sentence, " does not answer") || has(end.sentence, " has left"))
            << end.sentence;
        EXPECT_TRUE(end.rank >= 0 && end.rank < kRanks) << end.sentence;
      }
      EXPECT_NE(ends[kVictim].sentence, "went on");
    }
  }
}

}  // namespace
}  // namespace laconic::testing
