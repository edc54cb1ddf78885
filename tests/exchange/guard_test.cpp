// The guard decides by votes alone, and whatever it decides nothing is lost.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <limits>

#include "laconic/exchange/guard.h"
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

const GuardOptions kOn{.mode = GuardOptions::Mode::on};
constexpr std::size_t kEntries = 1'000'000;

// Four ranks of a made-up world: a step computes for so long and then shows what it sends.
struct World {
  double per_byte = 1e-8;                                             // 100 MB/s
  double compute = 0.1;                                               // seconds
  std::array<double, kLanes> kernels = {0.004, 0.002, 0.001, 0.003};  // seconds
  std::array<double, kLanes> bytes = {1.7e6, 3e6, 6e6, 2.5e6};
  double late = 0;     // seconds by which rank 3 is late
  double skewed = 0;   // share of a probe by which rank 3 begins it later than the others
  double crowded = 1;  // what plain sums really take, against what the link would let them

  double cost(std::size_t lane) const {
    return kernels[lane] + per_byte * bytes[lane] * (lane == 2 ? crowded : 1);
  }
  double period(std::size_t lane) const { return compute + late + cost(lane); }
};

// Of a recipe that has all lanes.
const GuardFacts kFacts{.ranks = 4,
                        .entries = kEntries,
                        .lanes = {true, true, true, true},
                        .bytes = {0, 3e6, 6e6, 2.5e6}};

struct Course {
  std::vector<Lane> lanes;
  double seconds = 0, probing = 0;
  std::vector<std::string> record;
};

// Runs the guard in a world that may change with the step.
template <class At>
Course run_guard(Guard& guard, std::uint64_t steps, At at) {
  Course course;
  Measures before[4] = {};
  for (std::uint64_t step = 0; step < steps; ++step) {
    const World world = at(step);
    const Lane lane = guard.lane(step);
    const std::uint32_t probe = guard.at(step).probe;
    const auto number = static_cast<std::size_t>(lane);
    std::vector<Ballot> ballots;
    for (const Measures& measures : before)
      ballots.push_back(
          {.step = step, .lane = static_cast<std::uint8_t>(lane), .measures = measures});
    const double probed = probe * world.per_byte;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const double waits = rank == 3 ? 0 : world.late;  // for the one that is late
      before[rank] = {
          .period = static_cast<float>(world.period(number) + probed),
          .kernels = static_cast<float>(world.kernels[number]),
          .exposed = static_cast<float>(world.cost(number) + waits),
          .wire = static_cast<float>(world.cost(number) - world.kernels[number] + waits),
          .bytes = static_cast<float>(world.bytes[number]),
          .probe = static_cast<float>(probed * (1 + (rank == 0   ? world.skewed
                                                     : rank == 3 ? -world.skewed
                                                                 : 0))),
          .probe_bytes = static_cast<float>(probe)};
    }
    guard.count(ballots);
    course.lanes.push_back(lane);
    course.seconds += world.period(number) + probed;
    course.probing += probed;
    for (std::string& line : guard.take_record()) course.record.push_back(std::move(line));
  }
  return course;
}

Course run_guard(const World& world, std::uint64_t steps, GuardOptions options = kOn) {
  Guard guard(options, kFacts);
  return run_guard(guard, steps, [&](std::uint64_t) { return world; });
}

std::size_t changes(const Course& course) {
  std::size_t count = 0;
  for (std::size_t i = 1; i < course.lanes.size(); ++i)
    count += course.lanes[i] != course.lanes[i - 1];
  return count;
}

TEST(Guard, StaysWithTheRecipeOnASlowLink) {
  const Course course = run_guard({.per_byte = 1e-6}, 300);
  for (const Lane lane : course.lanes) EXPECT_EQ(lane, Lane::recipe);
}

TEST(Guard, GoesPlainOnAFastLink) {
  const Course course = run_guard({.per_byte = 1e-11}, 300);
  EXPECT_EQ(course.lanes.back(), Lane::dense);
  EXPECT_LE(std::ranges::find(course.lanes, Lane::dense) - course.lanes.begin(), 20);
  EXPECT_EQ(changes(course), 1U);
}

TEST(Guard, Takes16BitsWhereTheyAreBest) {
  const Course course =
      run_guard({.per_byte = 1e-9, .compute = 0.01, .kernels = {0.02, 0.001, 0.001, 0.01}}, 300);
  EXPECT_EQ(course.lanes.back(), Lane::half);
}

// Between a link for which bytes are all and one for which they are nothing.
TEST(Guard, TakesACheaperOperatorWhereItIsBest) {
  const Course course =
      run_guard({.per_byte = 1e-8, .compute = 0.01, .kernels = {0.04, 0.01, 0.01, 0.002}}, 300);
  EXPECT_EQ(course.lanes.back(), Lane::light);
  EXPECT_LE(changes(course), 3U);
}

// A rank that is late makes others wait, which is no property of the link.
TEST(Guard, TakesNoStragglerForASlowLink) {
  for (const double per_byte : {1e-6, 1e-11}) {
    const Course course = run_guard({.per_byte = per_byte, .late = 0.5}, 300);
    const Course alone = run_guard({.per_byte = per_byte}, 300);
    // A step is so much longer that the lanes' difference may not be worth a change.
    if (per_byte > 1e-8) {
      EXPECT_EQ(course.lanes, alone.lanes);
    }
    EXPECT_LE(changes(course), 1U);
  }
}

// The probe of one that begins late was there already, and the next one waits for its.
TEST(Guard, TakesNoLateProbeForAFastLink) {
  const Course course = run_guard({.per_byte = 8e-8, .skewed = 0.999}, 300);
  for (const Lane lane : course.lanes) EXPECT_EQ(lane, Lane::recipe);
}

// What is predicted to be faster and is not is left at once and shut for longer and longer.
TEST(Guard, LeavesALaneThatIsSlowerThanPredicted) {
  const World world{.per_byte = 1e-10, .compute = 0.01, .crowded = 100};
  const Course course = run_guard(world, 2000);
  const auto plain = std::ranges::count(course.lanes, Lane::dense);
  EXPECT_GT(plain, 0);
  const double best = std::min(world.period(0), world.period(1)) * 2000;
  EXPECT_LE(course.seconds, 1.05 * best);
}

TEST(Guard, FollowsTheLinkWithin50Steps) {
  Guard guard(kOn, kFacts);
  const Course course = run_guard(guard, 600, [](std::uint64_t step) {
    return World{.per_byte = step < 200 ? 8e-8 : step < 400 ? 1e-11 : 8e-7};
  });
  EXPECT_EQ(course.lanes[199], Lane::recipe);
  for (std::size_t i = 250; i < 400; ++i) EXPECT_EQ(course.lanes[i], Lane::dense) << i;
  for (std::size_t i = 410; i < 600; ++i) EXPECT_EQ(course.lanes[i], Lane::recipe) << i;
}

TEST(Guard, ProbesForLessThanAHundredthOfTheTime) {
  for (const double per_byte : {1e-6, 1e-8, 1e-11}) {
    const Course course = run_guard({.per_byte = per_byte}, 400);
    EXPECT_LT(course.probing, 0.01 * course.seconds) << per_byte;
  }
}

TEST(Guard, OnlyReports) {
  Guard guard({.mode = GuardOptions::Mode::report}, kFacts);
  const Course course =
      run_guard(guard, 100, [](std::uint64_t) { return World{.per_byte = 1e-11}; });
  for (const Lane lane : course.lanes) EXPECT_EQ(lane, Lane::recipe);
  EXPECT_EQ(guard.at(100).lane, Lane::dense);
  EXPECT_GT(guard.predicted_gain(), 0);
}

TEST(Guard, ComesBackToTheRecipeWhenThatChanges) {
  GuardFacts facts = kFacts;
  facts.fences = {100};
  Guard guard(kOn, facts);
  const Course course =
      run_guard(guard, 200, [](std::uint64_t) { return World{.per_byte = 1e-11}; });
  EXPECT_EQ(course.lanes[99], Lane::dense);
  EXPECT_EQ(course.lanes[100], Lane::recipe);
  EXPECT_EQ(course.lanes[199], Lane::dense);
}

struct File {
  std::string path = ::testing::TempDir() + "guard-" + std::to_string(::getpid()) + ".jsonl";
  explicit File(const std::vector<std::string>& lines) {
    std::ofstream out(path);
    for (const auto& line : lines) out << line << '\n';
  }
  ~File() { std::remove(path.c_str()); }
};

TEST(Guard, IsReplayedFromItsRecord) {
  const Course course = run_guard({.per_byte = 1e-11}, 300);
  const File file(course.record);
  const Course again =
      run_guard({.per_byte = 1e-6}, 300, {.mode = GuardOptions::Mode::replay, .file = file.path});
  EXPECT_EQ(again.lanes, course.lanes);
}

TEST(Guard, RefusesWhatIsNoRecord) {
  const auto refusal = [](const std::vector<std::string>& lines) -> std::string {
    const File file(lines);
    try {
      Guard({.mode = GuardOptions::Mode::replay, .file = file.path}, {.ranks = 2});
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(refusal({"nonsense"}).find("line 1: a decision is"), std::string::npos);
  EXPECT_NE(refusal({R"({"step":1,"lane":"fast"})"}).find("no lane \"fast\""), std::string::npos);
  EXPECT_NE(refusal({R"({"step":1,"lane":"half"})"}).find("none of this"), std::string::npos);
  EXPECT_NE(refusal({R"({"step":2,"lane":"dense"})", R"({"step":2,"lane":"dense"})"}).find("rise"),
            std::string::npos);
  EXPECT_THROW(GuardOptions::parse("perhaps"), UsageError);
}

TEST(Guard, MeasuresOfAPeerAreNumbers) {
  Ballot ballot{.lane = 2, .measures = {.period = 0.5F, .bytes = 1e9F}};
  EXPECT_EQ(read_ballot(write_ballot(ballot)), ballot);
  for (const float bad : {-1.0F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    ballot.measures.wire = bad;
    EXPECT_THROW(read_ballot(write_ballot(ballot)), DataError);
  }
  ballot.measures.wire = 0;
  ballot.lane = kLanes;
  EXPECT_THROW(read_ballot(write_ballot(ballot)), DataError);
}

// ---- Lanes ----

// A record that takes these lanes, one after the other.
std::vector<std::string> script(const std::vector<const char*>& lanes) {
  std::vector<std::string> lines;
  for (const char* lane : lanes)
    lines.push_back(R"({"step":)" + std::to_string(lines.size()) + R"(,"lane":")" + lane + "\"}");
  return lines;
}

Job replayed(Job job, const File& file, std::uint64_t steps) {
  job.guard = {.mode = GuardOptions::Mode::replay, .file = file.path};
  job.steps = steps;
  return job;
}

double owed(const std::vector<State>& states) {
  std::vector<double> sum(count_of(kModel));
  for (State state : states) {
    for (auto& [name, values] : state)
      for (float& value : values) value = std::abs(value);
    add_kept(state, Kept::sum, sum);
  }
  double all = 0;
  for (const double value : sum) all += value;
  return all;
}

// In whole numbers, exactly, through every change; and after a step that goes as it is nobody owes
// anything.
TEST(Lanes, LoseNothing) {
  const std::vector<Job> jobs = {
      {.op = "topk:0.1", .memory = "feedback"},
      {.op = "topk:0.1", .memory = "feedback", .layout = "whole"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "sharded"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "auto", .ranks = 5},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "sparse"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "server", .down_memory = "feedback"},
      {.op = "randomk:0.2,unscaled", .memory = "feedback", .exchange = "summed"}};
  const File file(script({"recipe", "dense", "recipe", "recipe", "dense", "recipe", "dense"}));
  for (const Job& job : jobs)
    for (const std::uint64_t steps : {4, 6, 7}) {
      std::vector<State> states;
      Ledger ledger;
      run(replayed(job, file, steps), 0, states, ledger, true);
      EXPECT_EQ(ledger.gap(states), 0) << text_of(job) << " after " << steps;
      EXPECT_EQ(owed(states) == 0, steps == 7) << text_of(job) << " after " << steps;
    }
}

TEST(Lanes, Of16BitsLoseNothingWhereOwnersRemember) {
  const File file(script({"recipe", "half", "recipe", "half", "dense"}));
  const Job job{.op = "topk:0.1", .memory = "feedback", .exchange = "sharded"};
  for (const std::uint64_t steps : {2, 4, 5}) {
    std::vector<State> states;
    Ledger ledger;
    run(replayed(job, file, steps), 0, states, ledger);
    EXPECT_LE(ledger.gap(states), 0.05) << steps;
    EXPECT_EQ(owed(states) == 0, steps == 5) << steps;
  }
}

TEST(Lanes, OfFactorsLoseNothing) {
  const File file(script({"recipe", "dense", "recipe", "dense"}));
  for (const std::uint64_t steps : {3, 4}) {
    std::vector<State> states;
    Ledger ledger;
    run(replayed({.op = "identity", .exchange = "powersgd"}, file, steps), 0, states, ledger);
    EXPECT_LE(ledger.gap(states), 0.05) << steps;
  }
}

// By its cheaper operator a slice keeps what the recipe's promises, and what that leaves is owed.
TEST(Lanes, OfCheaperOperatorsLoseNothing) {
  const File file(script({"recipe", "light", "recipe", "light", "dense"}));
  for (const char* exchange : {"gather", "sharded", "server"}) {
    Job job{.op = "natural:nearest+entropy", .memory = "feedback", .exchange = exchange};
    if (job.exchange == "server") job.down_memory = "feedback";
    for (const std::uint64_t steps : {2, 4, 5}) {
      std::vector<State> states;
      Ledger ledger;
      run(replayed(job, file, steps), 0, states, ledger);
      EXPECT_LE(ledger.gap(states), 0.05) << text_of(job) << " after " << steps;
      EXPECT_EQ(owed(states) == 0, steps == 5) << text_of(job) << " after " << steps;
    }
  }
}

TEST(Lanes, OfCheaperOperatorsKeepThePromise) {
  const File file(script({"recipe", "light"}));
  for (const char* op : {"natural+entropy", "grid", "bucket:512+terngrad"})
    for (const char* exchange : {"gather", "sharded", "auto"}) {
      const Job job = replayed({.op = op, .exchange = exchange, .ranks = 5}, file, 2);
      const auto means = means_of(job);
      for (const auto& other : means) EXPECT_EQ(other, means[0]) << text_of(job);
      const auto off = [&](std::uint64_t step) {
        const auto exact = true_mean(job.ranks, step);
        double lost = 0, all = 0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
          const double difference = static_cast<double>(means[0][step][i]) - exact[i];
          lost += difference * difference;
          all += exact[i] * exact[i];
        }
        return lost / all;
      };
      EXPECT_GT(off(1), 0) << text_of(job);
      EXPECT_LE(off(1), 2 * off(0)) << text_of(job);  // of one draw each
    }
}

TEST(Lanes, OfCheaperOperatorsAreNotEverywhere) {
  const File file(script({"light"}));
  for (const char* op : {"natural", "topk:0.1+natural", "identity"})
    for (const std::string& error : on_ranks(2, [&](Transport& transport) {
           make(replayed({.op = op, .ranks = 2}, file, 1), transport);
         }))
      EXPECT_NE(error.find("lane 'light' is none of this recipe's"), std::string::npos)
          << op << ": " << error;
}

// Every memory: all ranks have the same mean, and where nothing but the gradient is remembered a
// step that goes as it is brings the mean gradient.
TEST(Lanes, GoWithEveryMemory) {
  const File file(script({"recipe", "dense", "half", "dense"}));
  const File without_half(script({"recipe", "dense", "recipe", "dense"}));
  for (const std::string memory :
       {"none", "feedback", "feedback:step", "dgc", "gmc", "ef21", "diana"})
    for (const std::string exchange : {"gather", "sharded"}) {
      const bool adds_up =
          memory == "diana";  // and takes no lane that drops anything on its way back
      if (adds_up && exchange == "sharded") continue;
      const Job job =
          replayed({.op = adds_up ? "natural" : "topk:0.1", .memory = memory, .exchange = exchange},
                   adds_up ? without_half : file, 5);
      const auto means = means_of(job);
      for (const auto& other : means) EXPECT_EQ(other, means[0]) << text_of(job);
      if (memory != "ef21" && memory != "none" && memory != "diana") continue;
      const auto exact = true_mean(job.ranks, 1);
      for (std::size_t i = 0; i < exact.size(); ++i)
        ASSERT_NEAR(static_cast<double>(means[0][1][i]), exact[i], 1e-5) << text_of(job) << i;
    }
}

struct Traces {
  std::vector<std::vector<float>> means;
  std::vector<std::uint64_t> traffic;
  std::vector<std::string> record;
  friend bool operator==(const Traces&, const Traces&) = default;
};

Traces traces_of(const Job& job) {
  std::vector<Traces> all(static_cast<std::size_t>(job.ranks));
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    const auto aggregator = make(job, transport);
    Traces& own = all[static_cast<std::size_t>(transport.rank())];
    std::vector<float> parameters;
    for (std::uint64_t step = 0; step < job.steps; ++step) {
      auto gradient = gradient_of(transport.rank(), step);
      own.traffic.push_back(aggregator->average(gradient, info_of(step, parameters)).traffic_bytes);
      own.means.push_back(gradient);
      for (auto& line : aggregator->take_guard_record()) own.record.push_back(std::move(line));
    }
  }));
  for (const Traces& other : all) {
    EXPECT_EQ(other.means, all[0].means);
    EXPECT_EQ(other.record, all[0].record);
  }
  return all[0];
}

TEST(Lanes, AreReplayedByteForByte) {
  Job job{.op = "topk:0.1", .memory = "feedback", .steps = 80, .guard = kOn};
  const Traces first = traces_of(job);
  EXPECT_FALSE(first.record.empty());
  const File file(first.record);
  job = replayed(job, file, job.steps);
  Traces again = traces_of(job);
  again.record = first.record;
  EXPECT_EQ(again, first);
}

// Whoever differs is told, and nothing is committed.
TEST(Lanes, AreTheSameOnAllRanks) {
  const File file(script({"dense"}));
  const auto errors = on_ranks(2, [&](Transport& transport) {
    Job job = replayed({.op = "identity", .ranks = 2}, file, 1);
    if (transport.rank() == 1) job.guard.mode = GuardOptions::Mode::report;
    auto gradient = gradient_of(transport.rank(), 0);
    make(job, transport, 60)->average(gradient, {});
  });
  for (const auto& error : errors) EXPECT_NE(error, "");
}

}  // namespace
}  // namespace laconic::testing
