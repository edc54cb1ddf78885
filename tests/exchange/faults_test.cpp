// Whatever goes wrong with one message of one rank, all ranks have made the same steps, and those who
// cannot know say so.
#include <atomic>

#include "tests/exchange/failures.h"
#include "laconic/transports/faulty.h"

namespace laconic::testing {
namespace {

constexpr int kRanks = 3;
constexpr std::uint64_t kSteps = 3;

// What a rank holds after each of its steps.
struct Course {
  std::vector<std::vector<float>> means;
  std::vector<State> states;  // the first is before all steps
  std::string sentence;       // of the first failure
  int culprit = kNobody;
  Outcome outcome = Outcome::none;
  bool over = false;  // it could not go on
};

std::unique_ptr<Aggregator> make_in_units(const Job& job, Transport& transport, double timeout) {
  Setup setup = setup_of(job, transport, timeout);
  setup.unit_bytes = 1;
  return make_aggregator(job.exchange, std::move(setup));
}

// Steps until all are made; a step that failed is tried again as long as `retries` last.
void run_course(Aggregator& aggregator, int rank, int retries, Course& course) {
  course.states.push_back(aggregator.save());
  for (std::uint64_t step = 0; step < kSteps;) {
    auto gradient = gradient_of(rank, step);
    try {
      aggregator.average(gradient, {.step = step});
      course.means.push_back(gradient);
      course.states.push_back(aggregator.save());
      ++step;
    } catch (const Error& error) {
      course.outcome = aggregator.outcome();
      if (course.sentence.empty()) {
        course.sentence = error.what();
        course.culprit = error.rank();
      }
      if (course.outcome != Outcome::in_doubt)
        EXPECT_EQ(aggregator.save(), course.states.back()) << error.what();
      if (course.outcome == Outcome::in_doubt || retries-- == 0) {
        course.over = true;
        return;
      }
    }
  }
}

std::vector<Course> courses_with(const Job& job, int victim, const Fault& fault, int retries,
                                 double timeout) {
  std::vector<Course> courses(kRanks);
  with_ends(make_thread_transports(kRanks), [&](std::unique_ptr<Transport>& end) {
    const int rank = end->rank();
    end = make_faulty_transport(std::move(end),
                                rank == victim ? std::vector{fault} : std::vector<Fault>{});
    Course& course = courses[static_cast<std::size_t>(rank)];
    try {
      run_course(*make_in_units(job, *end, timeout), rank, retries, course);
    } catch (const std::exception& error) {  // its own end is gone
      course.over = true;
      if (course.sentence.empty()) course.sentence = error.what();
    }
  });
  return courses;
}

const std::vector<Course>& reference(const Job& job) {
  static std::map<std::string, std::vector<Course>> known;
  auto& courses = known[text_of(job)];
  if (courses.empty()) {
    courses.resize(kRanks);
    expect_no_errors(on_ranks(kRanks, [&](Transport& transport) {
      run_course(*make_in_units(job, transport, 3600), transport.rank(), 0,
                 courses[static_cast<std::size_t>(transport.rank())]);
    }));
  }
  return courses;
}

// Messages of one rank in one step.
std::uint64_t messages_of_a_step(const Job& job, int victim) {
  std::uint64_t most = 0;
  for (std::uint64_t at = 0;; ++at) {
    const auto courses = courses_with(job, victim, {.message = at, .kind = Fault::Kind::kill}, 0, 3600);
    const auto& course = courses[static_cast<std::size_t>(victim)];
    if (course.states.size() > 1) return most;  // its first step was made
    most = at + 1;
  }
}

struct Count {
  std::atomic<int> faults = 0, noticed = 0, doubts = 0;
};

// All that are not in doubt and were not lost have made the same steps with the same means; memory
// is that of these steps. With frames it is also what it would be without the fault.
void expect_one_course(const Job& job, const std::vector<Course>& courses, int victim, bool lost,
                       bool framed, Count& count) {
  const auto& right = reference(job);
  const Course* first = nullptr;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Course& course = courses[static_cast<std::size_t>(rank)];
    count.doubts += course.outcome == Outcome::in_doubt;
    if ((lost && rank == victim) || course.outcome == Outcome::in_doubt) continue;
    if (!first) first = &course;
    EXPECT_EQ(course.means, first->means) << "rank " << rank << ": " << course.sentence;
    ASSERT_EQ(course.states.size(), course.means.size() + 1);
    if (!framed) continue;
    for (std::size_t i = 0; i < course.states.size(); ++i)
      EXPECT_EQ(course.states[i], right[static_cast<std::size_t>(rank)].states[i]) << rank;
    for (std::size_t i = 0; i < course.means.size(); ++i)
      EXPECT_EQ(course.means[i], right[static_cast<std::size_t>(rank)].means[i]) << rank;
  }
  ++count.faults;
  count.noticed += std::ranges::any_of(courses, [](const Course& c) { return !c.sentence.empty(); });
}

bool is_framed(const Job& job) {
  return job.exchange != "dense" && job.exchange != "summed" && job.exchange != "powersgd";
}

// A message that is damaged, or of another attempt: everybody notices at once, names its sender and
// tries again, until all steps are made. Who has voted and cannot read another's vote is in doubt.
TEST(Faults, ADamagedMessageLeavesAllRanksAlike) {
  Count count;
  for (const Job& job : one_of_each(kRanks))
    for (const int victim : {0, 1, 2}) {
      const std::uint64_t messages = 2 * messages_of_a_step(job, victim);
      for (std::uint64_t at = 0; at < messages; ++at)
        for (const auto kind :
             {Fault::Kind::corrupt, Fault::Kind::truncate, Fault::Kind::stale}) {
          SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + ", message " +
                       std::to_string(at) + ", fault " + std::to_string(static_cast<int>(kind)));
          const auto courses =
              courses_with(job, victim, {.message = at, .kind = kind}, 2, 3600);
          expect_one_course(job, courses, victim, false, is_framed(job), count);
          const bool doubt = std::ranges::any_of(
              courses, [](const Course& c) { return c.outcome == Outcome::in_doubt; });
          for (const Course& course : courses) {
            if (!doubt) EXPECT_EQ(course.means.size(), kSteps) << course.sentence;
            if (is_framed(job) && !course.sentence.empty())
              EXPECT_EQ(course.culprit, victim) << course.sentence;
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
  for (const Job& job : one_of_each(kRanks))
    for (const int victim : {0, 1, 2}) {
      const std::uint64_t messages = 2 * messages_of_a_step(job, victim);
      for (std::uint64_t at = 0; at < messages; ++at) {
        SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + ", message " +
                     std::to_string(at));
        const auto courses =
            courses_with(job, victim, {.message = at, .kind = Fault::Kind::kill}, 0, 3600);
        expect_one_course(job, courses, victim, true, true, count);
        for (int rank = 0; rank < kRanks; ++rank) {
          const Course& course = courses[static_cast<std::size_t>(rank)];
          EXPECT_TRUE(course.over);
          if (rank != victim) EXPECT_EQ(course.culprit, victim) << course.sentence;
        }
      }
    }
  std::printf("%d deaths, %d ranks in doubt\n", count.faults.load(), count.doubts.load());
}

// A rank that falls silent, at every message of a step: all cases wait at the same time.
TEST(Faults, ARankThatFallsSilentLeavesTheOthersAlike) {
  constexpr double kTimeout = 2;
  Count count;
  for (const Job& job : one_of_each(kRanks)) {
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
            expect_one_course(job, courses, victim, true, true, count);
            for (int rank = 0; rank < kRanks; ++rank) {
              const Course& course = courses[static_cast<std::size_t>(rank)];
              if (rank != victim) EXPECT_EQ(course.culprit, victim) << course.sentence;
            }
          });
    }
    for (auto& one : cases) one.join();
  }
  std::printf("%d silences, %d ranks in doubt\n", count.faults.load(), count.doubts.load());
}

}  // namespace
}  // namespace laconic::testing
