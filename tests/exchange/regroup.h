// Ranks that lose one of them and go on in the same process: what tests in threads
// (regroup_test.cpp) and over sockets share.
#pragma once

#include "tests/exchange/faults.h"

namespace laconic::testing {

inline constexpr std::uint64_t kStepsBefore = 2, kStepsAfter = 3;

struct Survivor {
  std::size_t made = 0;       // steps before the loss, what was settled included
  bool doubted = false;       // until it was settled
  State settled, taken, end;  // what is owed when the loss is settled, after, at the end
  std::vector<std::vector<float>> means;  // of the steps after
};

// One rank of `ends` dies at a message of its own; the others settle, take over what they remember
// over `smaller`, and make more steps. None: the fault came too late to meet anybody.
inline std::vector<Survivor> survivors_of(Ends ends, const Ends& smaller, const Job& job,
                                          int victim, std::uint64_t message) {
  std::vector<Survivor> survivors(smaller.size());
  std::atomic<bool> died = false;
  expect_no_errors(with_ends(std::move(ends), [&](std::unique_ptr<Transport>& end) {
    const int rank = end->rank();
    end = make_faulty_transport(
        std::move(end), rank == victim
                            ? std::vector{Fault{.message = message, .kind = Fault::Kind::kill}}
                            : std::vector<Fault>{});
    const auto place = static_cast<std::size_t>(rank - (rank > victim));
    Survivor lost;
    Survivor& mine = rank == victim ? lost : survivors[place];
    std::vector<float> parameters;
    const auto average = [&](Aggregator& aggregator, int as, std::uint64_t step) {
      auto gradient = whole_numbers(as, step);
      EXPECT_TRUE(aggregator.average(gradient, info_of(step, parameters)).finite);
      return gradient;
    };
    const auto aggregator = make_in_units(job, *end, 3600);
    try {
      for (; mine.made < kStepsBefore; ++mine.made) average(*aggregator, rank, mine.made);
      if (rank == victim) return;
      average(*aggregator, rank, mine.made);  // of the rank that has left
    } catch (const Error&) {
      if (rank == victim) {
        died = true;
        return;
      }
      mine.doubted = aggregator->outcome() == Outcome::in_doubt;
    }
    Transport& among = *smaller[place];
    if (aggregator->settle(among) == Outcome::committed && mine.doubted) ++mine.made;
    mine.settled = aggregator->save();
    Job fewer = job;
    --fewer.ranks;
    const auto fresh = make_in_units(fewer, among, 3600);
    fresh->take_over(*aggregator);
    mine.taken = fresh->save();
    for (std::uint64_t i = 0; i < kStepsAfter; ++i)
      mine.means.push_back(average(*fresh, static_cast<int>(place), 100 + i));
    mine.end = fresh->save();
  }));
  return died ? survivors : std::vector<Survivor>{};
}

inline std::vector<double> owed_by(const std::vector<Survivor>& survivors, State Survivor::*when) {
  std::vector<double> owed(count_of(kModel));
  for (const Survivor& one : survivors) add_kept(one.*when, Kept::sum, owed);
  return owed;
}

// All have made the same steps and get the same means; nothing of what they owe is lost, where
// anything is remembered: exactly, in whole numbers, where entries are sent as they are.
inline void expect_gone_on(const std::vector<Survivor>& survivors, const Job& job) {
  const bool exact = !compresses_itself(job.exchange) && selects_only(job.op);
  for (const Survivor& one : survivors) {
    EXPECT_EQ(one.made, survivors[0].made);
    EXPECT_EQ(one.means, survivors[0].means);
  }
  EXPECT_EQ(survivors[0].means.size(), kStepsAfter);
  if (forgets_what_it_drops(job.exchange)) return;
  const auto ranks = static_cast<double>(survivors.size());
  std::vector<double> owed = owed_by(survivors, &Survivor::settled);
  if (exact) {
    EXPECT_EQ(owed_by(survivors, &Survivor::taken), owed);
  }
  for (std::uint64_t i = 0; i < kStepsAfter; ++i)
    for (std::size_t rank = 0; rank < survivors.size(); ++rank) {
      const auto given = whole_numbers(static_cast<int>(rank), 100 + i);
      for (std::size_t e = 0; e < owed.size(); ++e) owed[e] += given[e];
    }
  for (const auto& mean : survivors[0].means)
    for (std::size_t e = 0; e < owed.size(); ++e) {
      const double sum = ranks * static_cast<double>(mean[e]);
      owed[e] -= exact ? std::nearbyint(sum) : sum;
    }
  const auto end = owed_by(survivors, &Survivor::end);
  for (std::size_t e = 0; e < owed.size(); ++e)
    ASSERT_NEAR(owed[e], end[e], exact ? 0 : 0.05) << "entry " << e;
}

}  // namespace laconic::testing
