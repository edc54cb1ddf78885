// Steps over different tensors that are open at the same time: each is what it would be alone,
// whatever becomes of the others.
#include <functional>
#include <optional>

#include "laconic/layout/places.h"
#include "laconic/transports/faulty.h"
#include "tests/exchange/failures.h"
#include "tests/exchange/jobs.h"

namespace laconic::testing {
namespace {

using Fragment = std::vector<std::size_t>;
const Fragment kFirst = {0, 3}, kSecond = {1, 2};

// A round of one rank: its gradients, and the step that averages those of a fragment.
class Round {
 public:
  Round(Aggregator& aggregator, const StepInfo& info, const Fragment& tensors,
        std::vector<float> gradient)
      : tensors_(tensors), gradient_(std::move(gradient)), step_(aggregator.begin(info, tensors)) {}

  // These of the fragment's tensors, by their places in it.
  void submit(std::size_t from, std::size_t to) {
    const Places places(kModel);
    std::vector<void*> data;
    for (std::size_t i = from; i < to; ++i)
      data.push_back(gradient_.data() + places.begin(tensors_[i]));
    step_.submit({.tensors = std::span(tensors_).subspan(from, to - from), .data = data});
  }
  // One after the other.
  void submit() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) submit(i, i + 1);
  }

  Transaction& step() { return step_; }
  // Of the fragment's tensors; the others' entries are this rank's gradient.
  const std::vector<float>& means() const { return gradient_; }

 private:
  Fragment tensors_;
  std::vector<float> gradient_;
  Transaction step_;
};

// What two fragments, each averaged in turn, have brought: by step, and what is remembered.
struct Result {
  std::vector<std::vector<float>> means;
  State state;
  std::uint64_t traffic = 0, messages = 0, rounds = 0;

  void take(Round& round) {
    const StepStats stats = round.step().finish();
    EXPECT_TRUE(stats.finite);
    means.push_back(round.means());
    traffic += stats.traffic_bytes;
    messages += stats.messages;
    rounds += stats.rounds;
  }

  friend bool operator==(const Result&, const Result&) = default;
};

constexpr std::uint64_t kRounds = 3;

// One rank's course: given its aggregator, the gradient of a step and what is known of it.
using Course = std::function<void(Aggregator&, int rank, Result&)>;

std::vector<Result> results_of(const Job& job, Engine engine, const Course& course) {
  std::vector<Result> results(static_cast<std::size_t>(job.ranks));
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    Setup setup = setup_of(job, transport);
    setup.unit_bytes = 1;
    setup.engine = engine;
    const auto aggregator = make_aggregator(job.exchange, std::move(setup));
    Result& result = results[static_cast<std::size_t>(transport.rank())];
    course(*aggregator, transport.rank(), result);
    result.state = aggregator->save();
  }));
  return results;
}

// Fragments of different steps, so that nothing of a step may leak into the other: learning rate,
// scale, parameters, norm.
struct Infos {
  std::vector<float> first_parameters, second_parameters;
  StepInfo first, second;

  explicit Infos(std::uint64_t round)
      : first(info_of(2 * round, first_parameters)),
        second(info_of(2 * round + 1, second_parameters)) {
    first.lr = 0.25F;
    second.scale = 4;
  }
};

void one_after_the_other(Aggregator& aggregator, int rank, Result& result) {
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const Infos infos(i);
    Round first(aggregator, infos.first, kFirst, gradient_of(rank, 2 * i));
    first.submit();
    result.take(first);
    first.step().commit();
    Round second(aggregator, infos.second, kSecond, gradient_of(rank, 2 * i + 1));
    second.submit();
    result.take(second);
    second.step().commit();
  }
}

// Begun in this order, submitted tensor by tensor in turn, ended and committed the other way round;
// the second is still pending when the first begins again.
void interleaved(Aggregator& aggregator, int rank, Result& result) {
  std::optional<Round> pending;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const Infos infos(i);
    Round first(aggregator, infos.first, kFirst, gradient_of(rank, 2 * i));
    first.submit(0, 1);
    if (pending) pending->step().commit();
    pending.reset();
    Round second(aggregator, infos.second, kSecond, gradient_of(rank, 2 * i + 1));
    second.submit(0, 1);
    first.submit(1, 2);
    second.submit(1, 2);
    Result backwards;
    backwards.take(second);
    backwards.take(first);
    result.means.push_back(backwards.means[1]);
    result.means.push_back(backwards.means[0]);
    result.traffic += backwards.traffic;
    result.messages += backwards.messages;
    result.rounds += backwards.rounds;
    first.step().commit();
    pending.emplace(std::move(second));
  }
}

std::vector<Job> jobs_of_tensors(int ranks) {
  std::vector<Job> jobs;
#if defined(LACONIC_SANITIZED)
  for (const Job& job : one_of_each(ranks)) jobs.push_back(job);
#else
  for (const Job& job : all_jobs(ranks)) jobs.push_back(job);
#endif
  // Memories that gather something over a step, or ask for the whole gradient first.
  jobs.push_back({.op = "topk:0.1", .memory = "dgc:0.5,clip=2", .ranks = ranks});
  jobs.push_back({.op = "topk:0.1", .memory = "ef21:0.25", .ranks = ranks});
  jobs.push_back({.op = "topk:0.1", .memory = "econtrol", .ranks = ranks});
  std::erase_if(jobs, [](const Job& job) { return job.layout != "tensor"; });
  return jobs;
}

TEST(Transactions, SideBySideIsTheSameAsOneAfterTheOther) {
  for (const Job& job : jobs_of_tensors(3))
    for (const Engine engine : {Engine::callers, Engine::thread}) {
      const auto right = results_of(job, Engine::callers, one_after_the_other);
      EXPECT_EQ(results_of(job, engine, interleaved), right)
          << text_of(job) << (engine == Engine::thread ? ", by a thread" : "");
      for (const Result& result : right) EXPECT_EQ(result.means.size(), 2 * kRounds);
    }
}

// A mask of what was sent is of its own step.
TEST(Transactions, MomentumIsMaskedByTheStepThatIsCommitted) {
  const Job job{.op = "topk:0.1", .memory = "feedback:masking=on", .ranks = 2};
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    const auto aggregator = make(job, transport);
    const Places places(kModel);
    std::vector<float> momentum(count_of(kModel), 1.0F);
    StepInfo info{.momentum = momentum};
    Round first(*aggregator, info, kFirst, gradient_of(transport.rank(), 0));
    info.step = 1;
    Round second(*aggregator, info, kSecond, gradient_of(transport.rank(), 1));
    first.submit();
    second.submit();
    first.step().finish();
    second.step().finish();
    first.step().rollback();
    second.step().commit();
    const auto masked = [&](std::size_t tensor) {
      return std::count(momentum.begin() + static_cast<std::ptrdiff_t>(places.begin(tensor)),
                        momentum.begin() + static_cast<std::ptrdiff_t>(places.end(tensor)), 0.0F);
    };
    EXPECT_EQ(masked(0) + masked(3), 0);
    EXPECT_EQ(masked(1) + masked(2), 4 + 40) << "a tenth of each";
  }));
}

// One is undone, by the host's word or by an error on one rank; the other goes on as if alone.
TEST(Transactions, WhatBecomesOfOneIsNothingToTheOther) {
  for (const Job& job : one_of_each(3))
    for (const Engine engine : {Engine::callers, Engine::thread})
      for (const std::string end : {"rollback", "abort", "infinite", "let go"}) {
        SCOPED_TRACE(text_of(job) + ", " + end);
        const auto alone = results_of(job, engine, [](Aggregator& aggregator, int rank, Result& r) {
          for (std::uint64_t i = 0; i < 2; ++i) {
            Round second(aggregator, {.step = i}, kSecond, gradient_of(rank, i));
            second.submit();
            r.take(second);
            second.step().commit();
          }
        });
        const auto with = [&](Aggregator& aggregator, int rank, Result& r) {
          for (std::uint64_t i = 0; i < 2; ++i) {
            auto gradient = gradient_of(rank, 7);
            if (end == "infinite" && rank == 1) gradient[3] = INFINITY;
            std::optional<Round> first;
            first.emplace(aggregator, StepInfo{.step = 7}, kFirst, gradient);
            Round second(aggregator, {.step = i}, kSecond, gradient_of(rank, i));
            first->submit(0, 1);
            second.submit(0, 1);
            if (end == "let go") {
              first.reset();
            } else if (end == "abort") {
              if (rank == 1)
                first->step().abort("enough");
              else
                first->submit(1, 2);
              EXPECT_THROW(first->step().finish(), Error);
              EXPECT_EQ(first->step().outcome(), Outcome::rolled_back);
            } else {
              first->submit(1, 2);
              EXPECT_EQ(first->step().finish().finite, end != "infinite");
              if (end == "rollback") first->step().rollback();
            }
            second.submit(1, 2);
            r.take(second);
            second.step().commit();
            EXPECT_EQ(second.step().outcome(), Outcome::committed);
          }
        };
        EXPECT_EQ(results_of(job, engine, with), alone);
      }
}

// A round that spans many steps over other tensors: it votes on its own, without its host.
TEST(Transactions, ARoundEndsWhileStepsOverOtherTensorsAreMade) {
  for (const Engine engine : {Engine::callers, Engine::thread})
    expect_no_errors(on_ranks(2, [&](Transport& transport) {
      laconic::Setup setup =
          setup_of({.op = "topk:0.1", .memory = "feedback", .ranks = 2}, transport);
      setup.engine = engine;
      const auto aggregator = make_aggregator("gather", std::move(setup));
      Round slow(*aggregator, {.step = 0}, kFirst, gradient_of(transport.rank(), 0));
      slow.submit();
      for (std::uint64_t step = 0; step < 20; ++step) {
        Round quick(*aggregator, {.step = step}, kSecond, gradient_of(transport.rank(), step));
        quick.submit();
        EXPECT_TRUE(quick.step().finish().finite);  // and let go: committed
      }
      EXPECT_TRUE(slow.step().poll(0)) << "whoever moved the others has moved it too";
      const State before = aggregator->save();  // what is open is not in it
      EXPECT_TRUE(slow.step().finish().finite);
      slow.step().commit();
      const State after = aggregator->save();
      EXPECT_NE(before.at("feedback/w1"), after.at("feedback/w1"));
      EXPECT_EQ(before.at("feedback/w2"), after.at("feedback/w2"));
    }));
}

TEST(Transactions, MistakesOfTheCallerAreSentences) {
  auto ends = make_thread_transports(1);
  const auto refusal = [](auto&& call) { return message_of<UsageError>(call); };
  {
    const auto aggregator = make({.ranks = 1}, *ends[0]);
    Round first(*aggregator, {.step = 5}, kFirst, gradient_of(0, 0));
    EXPECT_EQ(refusal([&] {
                aggregator->begin({}, {{1, 3}});
              }),
              "tensor 'b2' is in step 5, which is open; allowed: after finish");
    EXPECT_EQ(refusal([&] { aggregator->begin({}); }),
              "tensor 'w1' is in step 5, which is open; allowed: after finish");
    EXPECT_EQ(refusal([&] { aggregator->begin({}, {}); }),
              "a step over no tensors; allowed: one and more");
    EXPECT_EQ(refusal([&] { aggregator->begin({}, {{1, 1}}); }), "a step over tensor 'b1' twice");
    EXPECT_EQ(refusal([&] { aggregator->begin({}, {{4}}); }), "tensor 4 is none of the model's");
    float entry[40];
    void* const data[] = {entry};
    EXPECT_EQ(refusal([&] { first.step().submit({.tensors = Fragment{1}, .data = data}); }),
              "tensor 1 ('b1') is none of this step's");
    EXPECT_NE(refusal([&] { aggregator->load({}); }), "");
    EXPECT_NE(refusal([&] { first.step().commit(); }), "");
    first.submit();
    first.step().finish();
    // Silence is consent: the next step over a tensor of it commits it.
    Round next(*aggregator, {.step = 6}, {0}, gradient_of(0, 0));
    EXPECT_EQ(first.step().outcome(), Outcome::committed);
    EXPECT_EQ(refusal([&] { first.step().rollback(); }), "rollback of a step that was committed");
  }
  const auto whole = make({.layout = "whole", .ranks = 1}, *ends[0]);
  EXPECT_EQ(refusal([&] {
              whole->begin({}, {{0, 1}});
            }),
            "a step over tensor 'w1' without 'w2', which is in the same slice 'w1..b2'; allowed: "
            "all tensors of a slice, or none");
  Round all(*whole, {}, {3, 1, 0, 2}, gradient_of(0, 0));
  all.submit();
  EXPECT_TRUE(all.step().finish().finite);
}

TEST(Transactions, AGuardHasOnlyWholeSteps) {
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto aggregator =
        make({.ranks = 2, .guard = {.mode = GuardOptions::Mode::on}}, transport);
    EXPECT_EQ(message_of<UsageError>([&] { aggregator->begin({}, {{0}}); }),
              "a step over some tensors with a guard; allowed: guard off");
  }));
}

// Ranks that have committed different fragments before are told so by the next step of both.
TEST(Transactions, RanksThatCommittedOtherFragmentsAreTold) {
  const auto errors = on_ranks(2, [&](Transport& transport) {
    const auto aggregator = make({.op = "topk:0.1", .memory = "feedback", .ranks = 2}, transport);
    const int rank = transport.rank();
    Round first(*aggregator, {}, kFirst, gradient_of(rank, 0));
    Round second(*aggregator, {}, kSecond, gradient_of(rank, 1));
    first.submit();
    second.submit();
    EXPECT_TRUE(first.step().finish().finite);
    EXPECT_TRUE(second.step().finish().finite);
    (rank == 0 ? first : second).step().commit();
    (rank == 0 ? second : first).step().rollback();
    auto gradient = gradient_of(rank, 2);
    aggregator->average(gradient, {.step = 2});
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error,
              "ranks differ in step 2: rank 1 rolled the step before back, rank 0 committed the "
              "step before");
}

// Whatever goes wrong with one message of one rank while two steps are open: of each of them all
// ranks have the same, and what all have is as without the fault.
struct Outcomes {
  Outcome first = Outcome::none, second = Outcome::none;
  std::vector<float> first_means, second_means;
  State before, state;
  bool gone = false;
};

std::vector<Outcomes> two_with(const Job& job, int victim, const std::vector<Fault>& faults,
                               double timeout) {
  std::vector<Outcomes> all(static_cast<std::size_t>(job.ranks));
  const Ends survivors = make_thread_transports(std::max(1, job.ranks - 1));
  with_ends(make_thread_transports(job.ranks), [&](std::unique_ptr<Transport>& end) {
    const int rank = end->rank();
    end = make_faulty_transport(std::move(end), rank == victim ? faults : std::vector<Fault>{});
    Outcomes& mine = all[static_cast<std::size_t>(rank)];
    Setup setup = setup_of(job, *end, timeout);
    setup.unit_bytes = 1;
    const auto aggregator = make_aggregator(job.exchange, std::move(setup));
    mine.before = aggregator->save();
    const auto end_of = [](Round& round, Outcome& outcome, std::vector<float>& means) {
      try {
        if (round.step().finish().finite) round.step().commit();
        means = round.means();
      } catch (const Error&) {
      }
      outcome = round.step().outcome();
    };
    try {
      Round first(*aggregator, {.step = 0}, kFirst, gradient_of(rank, 0));
      Round second(*aggregator, {.step = 1}, kSecond, gradient_of(rank, 1));
      first.submit(0, 1);
      second.submit();
      first.submit(1, 2);
      end_of(second, mine.second, mine.second_means);
      end_of(first, mine.first, mine.first_means);
      if (!faults.empty() && faults[0].kind == Fault::Kind::kill && rank != victim) {
        aggregator->settle(*survivors[static_cast<std::size_t>(rank - (rank > victim))]);
        const bool doubted = mine.first == Outcome::in_doubt;
        mine.first = first.step().outcome();
        mine.second = second.step().outcome();
        if (doubted && mine.first == Outcome::committed) mine.first_means = first.means();
        if (mine.second == Outcome::committed) mine.second_means = second.means();
      }
      mine.state = aggregator->save();
    } catch (const Error&) {
      mine.gone = true;  // its own end is
    }
  });
  return all;
}

// The state after the steps that were committed.
State expected(const State& before, const State& after, bool first, bool second) {
  State state = before;
  for (auto& [name, values] : state)
    for (std::size_t t = 0; t < kModel.size(); ++t)
      if (name.ends_with("/" + kModel[t].name) && (t == 0 || t == 3 ? first : second))
        values = after.at(name);
  return state;
}

TEST(Transactions, AFaultInOneOfThemLeavesAllRanksAlike) {
  int faults = 0, parted = 0, doubts = 0;
  for (const Job& job : one_of_each(3)) {
    const auto right = two_with(job, kNobody, {}, 3600);
    for (int victim = 0; victim < job.ranks; ++victim)
      for (const auto kind : {Fault::Kind::corrupt, Fault::Kind::truncate, Fault::Kind::kill}) {
        const bool lost = kind == Fault::Kind::kill;
        bool met = true;
        for (std::uint64_t at = 0; met; ++at) {
          SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + ", message " +
                       std::to_string(at) + ", fault " + std::to_string(static_cast<int>(kind)));
          const auto all = two_with(job, victim, {{.message = at, .kind = kind}}, 3600);
          const auto& other = all[victim == 0 ? 1 : 0];
          met = false;
          for (std::size_t rank = 0; rank < all.size(); ++rank) {
            const Outcomes& mine = all[rank];
            const bool doubt = mine.first == Outcome::in_doubt || mine.second == Outcome::in_doubt;
            met |= mine.gone || doubt || mine.first != Outcome::committed ||
                   mine.second != Outcome::committed;
            doubts += doubt;
            if (doubt || (lost && static_cast<int>(rank) == victim)) continue;
            ASSERT_FALSE(mine.gone);
            if (other.first != Outcome::in_doubt) {
              EXPECT_EQ(mine.first, other.first);
            }
            if (other.second != Outcome::in_doubt) {
              EXPECT_EQ(mine.second, other.second);
            }
            const bool first = mine.first == Outcome::committed;
            const bool second = mine.second == Outcome::committed;
            EXPECT_EQ(mine.state, expected(right[rank].before, right[rank].state, first, second));
            if (first) {
              EXPECT_EQ(mine.first_means, right[rank].first_means);
            }
            if (second) {
              EXPECT_EQ(mine.second_means, right[rank].second_means);
            }
            parted += first != second;
          }
          faults += met;
        }
      }
  }
  std::printf("%d faults, %d ranks made one step of two, %d in doubt\n", faults, parted, doubts);
  EXPECT_GT(faults, 200);
  EXPECT_GT(parted, 200) << "one step must go on without the other";
}

}  // namespace
}  // namespace laconic::testing
