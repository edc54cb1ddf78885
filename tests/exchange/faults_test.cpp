// Whatever goes wrong with one message of one rank, all ranks have made the same steps, and those
// who cannot know say so.
#include "tests/exchange/faults.h"

namespace laconic::testing {
namespace {

std::vector<Course> courses_with(const Job& job, int victim, const Fault& fault, int retries,
                                 double timeout) {
  return courses_over(make_thread_transports(job.ranks), job, victim, fault, retries, timeout);
}

std::vector<Job> all_of_each() {
  std::vector<Job> jobs = one_of_each(3);
#if !defined(LACONIC_SANITIZED)
  for (const Job& job : one_of_each(4)) jobs.push_back(job);
#endif
  return jobs;
}

// Messages of one rank in one step.
std::uint64_t messages_of_a_step(const Job& job, int victim) {
  std::uint64_t most = 0;
  for (std::uint64_t at = 0;; ++at) {
    const auto courses =
        courses_with(job, victim, {.message = at, .kind = Fault::Kind::kill}, 0, 3600);
    const auto& course = courses[static_cast<std::size_t>(victim)];
    if (course.states.size() > 1) return most;  // its first step was made
    most = at + 1;
  }
}

// A message that is damaged, or of another attempt: everybody notices at once, names its sender and
// tries again, until all steps are made. Who has voted and cannot read another's vote is in doubt.
TEST(Faults, ADamagedMessageLeavesAllRanksAlike) {
  Count count;
  for (const Job& job : all_of_each())
    for (int victim = 0; victim < job.ranks; ++victim) {
      const std::uint64_t messages = kSteps * messages_of_a_step(job, victim);
      for (std::uint64_t at = 0; at < messages; ++at)
        for (const auto kind : {Fault::Kind::corrupt, Fault::Kind::truncate, Fault::Kind::stale}) {
          SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + ", message " +
                       std::to_string(at) + ", fault " + std::to_string(static_cast<int>(kind)));
          const auto courses = courses_with(job, victim, {.message = at, .kind = kind}, 2, 3600);
          expect_one_course(reference(job), courses, victim, false, count);
          const bool noticed =
              std::ranges::all_of(courses, [](const Course& c) { return !c.sentence.empty(); });
          const bool doubt = std::ranges::any_of(
              courses, [](const Course& c) { return c.outcome == Outcome::in_doubt; });
          if (!doubt && kind != Fault::Kind::stale) {
            EXPECT_TRUE(noticed);
          }
          for (const Course& course : courses) {
            if (!doubt) {
              EXPECT_EQ(course.means.size(), kSteps) << course.sentence;
            }
            if (!course.sentence.empty()) {
              EXPECT_EQ(course.culprit, victim) << course.sentence;
            }
          }
        }
    }
  std::printf("%d faults, %d noticed, %d ranks in doubt\n", count.faults.load(),
              count.noticed.load(), count.doubts.load());
  EXPECT_GT(count.noticed, count.faults / 2);
}

// A rank that dies: those who wait for it are told at once, also through others.
TEST(Faults, ARankThatDiesLeavesTheOthersAlike) {
  Count count;
  for (const Job& job : all_of_each())
    for (int victim = 0; victim < job.ranks; ++victim) {
      const std::uint64_t messages = kSteps * messages_of_a_step(job, victim);
      for (std::uint64_t at = 0; at < messages; ++at) {
        SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + ", message " +
                     std::to_string(at));
        const auto courses =
            courses_with(job, victim, {.message = at, .kind = Fault::Kind::kill}, 0, 3600);
        expect_one_course(reference(job), courses, victim, true, count);
        for (int rank = 0; rank < job.ranks; ++rank) {
          const Course& course = courses[static_cast<std::size_t>(rank)];
          EXPECT_TRUE(course.over);
          if (rank != victim) {
            EXPECT_EQ(course.culprit, victim) << course.sentence;
          }
        }
        expect_settled(reference(job), courses, victim);
      }
    }
  std::printf("%d deaths, %d ranks in doubt\n", count.faults.load(), count.doubts.load());
}

// A rank that falls silent, at every message of a step: all cases wait at the same time.
TEST(Faults, ARankThatFallsSilentLeavesTheOthersAlike) {
  constexpr double kTimeout = 2;
  Count count;
  for (const Job& job : one_of_each(3)) {
    reference(job);
    std::vector<std::thread> cases;
    for (const int victim : {0, 1, 2}) {
      const std::uint64_t messages = messages_of_a_step(job, victim);
      for (std::uint64_t at = 0; at < messages; ++at)
        for (const auto kind : {Fault::Kind::drop, Fault::Kind::stall})
          cases.emplace_back([=, &job, &count] {
            SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + ", message " +
                         std::to_string(at) + ", fault " + std::to_string(static_cast<int>(kind)));
            const auto courses =
                courses_with(job, victim, {.message = at, .kind = kind}, 0, kTimeout);
            expect_one_course(reference(job), courses, victim, true, count);
            for (int rank = 0; rank < job.ranks; ++rank) {
              const Course& course = courses[static_cast<std::size_t>(rank)];
              if (rank != victim) {
                EXPECT_EQ(course.culprit, victim) << course.sentence;
              }
            }
          });
    }
    for (auto& one : cases) one.join();
  }
  std::printf("%d silences, %d ranks in doubt\n", count.faults.load(), count.doubts.load());
}

}  // namespace
}  // namespace laconic::testing
