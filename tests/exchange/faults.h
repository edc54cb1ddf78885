// Courses of ranks of which one meets a fault: what tests in threads (faults_test.cpp) and in
// processes (mpi/faults.cpp) share.
#pragma once

#include <atomic>
#include <map>

#include "laconic/transports/faulty.h"
#include "tests/exchange/failures.h"

namespace laconic::testing {

inline constexpr std::uint64_t kSteps = 3;

// What a rank holds after each of its steps.
struct Course {
  std::vector<std::vector<float>> means;
  std::vector<State> states;  // the first is before all steps
  std::string sentence;       // of the first failure
  int culprit = kNobody;
  Outcome outcome = Outcome::none;
  bool over = false;  // it could not go on
  State settled;      // what it goes on with among survivors
};

inline std::unique_ptr<Aggregator> make_in_units(const Job& job, Transport& transport,
                                                 double timeout) {
  Setup setup = setup_of(job, transport, timeout);
  setup.unit_bytes = 1;
  return make_aggregator(job.exchange, std::move(setup));
}

// Steps until all are made; a step that failed is tried again as long as `retries` last.
inline void run_course(Aggregator& aggregator, int rank, int retries, Course& course) {
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
      if (course.outcome != Outcome::in_doubt) {
        EXPECT_EQ(aggregator.save(), course.states.back()) << error.what();
      }
      if (course.outcome == Outcome::in_doubt || retries-- == 0) {
        course.over = true;
        return;
      }
    }
  }
}

// What becomes of all ranks when something goes wrong with one message of one of them. Survivors of
// a loss then go on among themselves: what they are in doubt about is settled first.
inline std::vector<Course> courses_over(Ends ends, const Job& job, int victim, const Fault& fault,
                                        int retries, double timeout) {
  std::vector<Course> courses(ends.size());
  const Ends survivors = make_thread_transports(job.ranks - 1);
  with_ends(std::move(ends), [&](std::unique_ptr<Transport>& end) {
    const int rank = end->rank();
    end = make_faulty_transport(std::move(end),
                                rank == victim ? std::vector{fault} : std::vector<Fault>{});
    Course& course = courses[static_cast<std::size_t>(rank)];
    try {
      const auto aggregator = make_in_units(job, *end, timeout);
      run_course(*aggregator, rank, retries, course);
      if (fault.kind != Fault::Kind::kill || rank == victim) return;
      aggregator->settle(*survivors[static_cast<std::size_t>(rank - (rank > victim))]);
      course.settled = aggregator->save();
    } catch (const std::exception& error) {  // its own end is gone
      course.over = true;
      if (course.sentence.empty()) course.sentence = error.what();
    }
  });
  return courses;
}

// The same without a fault.
inline const std::vector<Course>& reference(const Job& job) {
  static std::map<std::string, std::vector<Course>> known;
  auto& courses = known[text_of(job)];
  if (courses.empty()) {
    courses.resize(static_cast<std::size_t>(job.ranks));
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      run_course(*make_in_units(job, transport, 3600), transport.rank(), 0,
                 courses[static_cast<std::size_t>(transport.rank())]);
    }));
  }
  return courses;
}

struct Count {
  std::atomic<int> faults = 0, noticed = 0, doubts = 0;
};

// All that are not in doubt and were not lost have made the same steps with the same means; memory
// is that of these steps. Both are what they would be without the fault.
inline void expect_one_course(const std::vector<Course>& right, const std::vector<Course>& courses,
                              int victim, bool lost, Count& count) {
  const Course* first = nullptr;
  for (int rank = 0; rank < static_cast<int>(courses.size()); ++rank) {
    const Course& course = courses[static_cast<std::size_t>(rank)];
    count.doubts += course.outcome == Outcome::in_doubt;
    if ((lost && rank == victim) || course.outcome == Outcome::in_doubt) continue;
    if (!first) first = &course;
    EXPECT_EQ(course.means, first->means) << "rank " << rank << ": " << course.sentence;
    ASSERT_EQ(course.states.size(), course.means.size() + 1);
    for (std::size_t i = 0; i < course.states.size(); ++i)
      EXPECT_EQ(course.states[i], right[static_cast<std::size_t>(rank)].states[i]) << rank;
    for (std::size_t i = 0; i < course.means.size(); ++i)
      EXPECT_EQ(course.means[i], right[static_cast<std::size_t>(rank)].means[i]) << rank;
  }
  ++count.faults;
  count.noticed +=
      std::ranges::any_of(courses, [](const Course& c) { return !c.sentence.empty(); });
}

// Survivors go on from the same step, the last that any of them has made.
inline void expect_settled(const std::vector<Course>& right, const std::vector<Course>& courses,
                           int victim) {
  std::size_t steps = 0;
  for (std::size_t rank = 0; rank < courses.size(); ++rank)
    if (static_cast<int>(rank) != victim) steps = std::max(steps, courses[rank].means.size());
  for (std::size_t rank = 0; rank < courses.size(); ++rank)
    if (static_cast<int>(rank) != victim) {
      EXPECT_EQ(courses[rank].settled, right[rank].states[steps]) << "rank " << rank;
    }
}

}  // namespace laconic::testing
