// One-sided faults over sockets: whatever goes wrong with one message of one rank, all ranks have
// made the same steps. exchange/faults_test.cpp tries every message; here some of them.
#include "tests/exchange/regroup.h"
#include "tests/transports/sockets.h"

namespace laconic::testing {
namespace {

struct Case {
  Job job;
  int victim;
  Fault fault;

  std::string text() const {
    return text_of(job) + ", rank " + std::to_string(victim) + ", message " +
           std::to_string(fault.message) + ", fault " +
           std::to_string(static_cast<int>(fault.kind));
  }
};

// Some for every exchange.
std::vector<Case> cases(const std::vector<Fault::Kind>& kinds, std::uint64_t each,
                        std::uint64_t most_message) {
  std::vector<Case> all;
  for (const Job& job : one_of_each(3))
    for (const auto kind : kinds)
      for (std::uint64_t i = 0; i < each; ++i) {
        const Key draw = Key(all.size());
        all.push_back({job,
                       static_cast<int>(draw.bits(1) % 3),
                       {.message = draw.bits(2) % most_message, .kind = kind}});
      }
  return all;
}

std::vector<Course> run(const Case& one, int retries, double timeout) {
  return courses_over(unix_ends(one.job.ranks), one.job, one.victim, one.fault, retries, timeout);
}

TEST(SocketsFaults, ADamagedMessageLeavesAllRanksAlike) {
  Count count;
  for (const Case& one :
       cases({Fault::Kind::corrupt, Fault::Kind::truncate, Fault::Kind::stale}, 8, 20)) {
    SCOPED_TRACE(one.text());
    const auto courses = run(one, 2, 3600);
    expect_one_course(reference(one.job), courses, one.victim, false, count);
    for (const Course& course : courses)
      if (!course.sentence.empty()) {
        EXPECT_EQ(course.culprit, one.victim) << course.sentence;
      }
  }
  std::printf("%d faults, %d noticed, %d ranks in doubt\n", count.faults.load(),
              count.noticed.load(), count.doubts.load());
  EXPECT_GT(count.noticed, count.faults / 4);
}

TEST(SocketsFaults, ARankThatDiesLeavesTheOthersAlike) {
  Count count;
  for (const Case& one : cases({Fault::Kind::kill}, 12, 12)) {
    SCOPED_TRACE(one.text());
    const auto courses = run(one, 0, 3600);
    expect_one_course(reference(one.job), courses, one.victim, true, count);
    for (int rank = 0; rank < one.job.ranks; ++rank) {
      const Course& course = courses[static_cast<std::size_t>(rank)];
      if (rank != one.victim && course.over) {
        EXPECT_EQ(course.culprit, one.victim) << course.sentence;
      }
    }
    expect_settled(reference(one.job), courses, one.victim);
  }
  std::printf("%d deaths, %d ranks in doubt\n", count.faults.load(), count.doubts.load());
}

// Over sockets of their own, which the others have kept for that.
TEST(SocketsFaults, SurvivorsGoOn) {
  int deaths = 0;
  for (const Job& job : one_of_each(4))
    for (const std::uint64_t message : {0, 3, 5, 7}) {
      SCOPED_TRACE(text_of(job) + ", message " + std::to_string(message));
      const int victim = static_cast<int>(message % 4);
      const auto survivors = survivors_of(unix_ends(4), unix_ends(3), job, victim, message);
      if (survivors.empty()) continue;
      expect_gone_on(survivors, job);
      ++deaths;
    }
  std::printf("%d deaths\n", deaths);
  EXPECT_GT(deaths, 20);
}

// All cases wait at the same time.
TEST(SocketsFaults, ARankThatFallsSilentIsNamed) {
  Count count;
  const auto all = cases({Fault::Kind::stall}, 4, 4);
  for (const Case& one : all) reference(one.job);
  std::vector<std::thread> threads;
  for (const Case& one : all)
    threads.emplace_back([&] {
      SCOPED_TRACE(one.text());
      const auto courses = run(one, 0, 4);
      expect_one_course(reference(one.job), courses, one.victim, true, count);
      for (int rank = 0; rank < one.job.ranks; ++rank) {
        const Course& course = courses[static_cast<std::size_t>(rank)];
        if (rank != one.victim && course.over) {
          EXPECT_EQ(course.culprit, one.victim) << course.sentence;
        }
      }
    });
  for (auto& one : threads) one.join();
  std::printf("%d silences, %d ranks in doubt\n", count.faults.load(), count.doubts.load());
}

}  // namespace
}  // namespace laconic::testing
