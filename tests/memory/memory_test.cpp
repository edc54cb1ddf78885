// Memories: each one's invariant, and what holds for all of them: transactions, and state that
// survives another layout.
#include "tests/support.h"

namespace laconic::testing {
namespace {

const Model kModel = {{"a", {30, 10}}, {"b", {7}}, {"c", {4, 4, 4}}};
const std::size_t kCount = count_of(kModel);

// One rank's steps with a memory, without an exchange: the mean is what it sent itself.
struct Bench {
  Plan plan;
  std::unique_ptr<Memory> memory;
  Scratch scratch;
  Decoder decoder;
  float lr = 0.5F;
  std::uint64_t seed = 1;
  std::vector<float> parameters = gaussian(kCount, 1, 77), momentum = gaussian(kCount, 1, 78);
  std::vector<float> offered, sent, mean;  // of the last step
  std::vector<std::uint8_t> bytes;         // likewise
  std::vector<double> delivered = std::vector<double>(kCount);

  Bench(const std::string& memory, const std::string& op, const std::string& layout = "tensor")
      : plan(make_plan(kModel, layout, parse_operator(op))),
        memory(make_memory(memory, kModel, plan)) {}

  // One step up to, but not including, its end.
  void run(std::span<const float> gradient, std::uint64_t step) {
    const StepInfo info{.step = step,
                        .lr = lr,
                        .parameters = parameters,
                        .momentum = momentum,
                        .ranks = 4,
                        .draws = Key(seed).fork(step),
                        .plan = &plan};
    offered.clear();
    bytes.clear();
    sent.assign(kCount, 0);
    memory->begin(info);
    if (memory->wants_norm()) memory->norm(std::sqrt(squared({gradient.begin(), gradient.end()})));
    for (std::size_t i = 0; i < plan.layout.size(); ++i) run_slice(i, gradient, step);
    mean = sent;
    for (const Slice& slice : plan.layout)
      for (std::size_t from = 0; from < slice.count; from += kBlock)
        memory->mean(
            slice, from,
            std::span(mean).subspan(slice.offset + from, std::min(kBlock, slice.count - from)));
  }

  void run_slice(std::size_t i, std::span<const float> gradient, std::uint64_t step) {
    const Slice& slice = plan.layout[i];
    const Keys keys = make_keys(1, step, 0).at(slice.offset);
    const Source source =
        memory->source(slice, Floats(gradient.subspan(slice.offset, slice.count)));
    for (std::size_t from = 0; from < slice.count; from += kBlock) {
      float buffer[kBlock];
      const std::size_t count = std::min(kBlock, slice.count - from);
      const float* x = source.load(from, count, buffer);
      offered.insert(offered.end(), x, x + count);
    }
    Buffer section;
    ASSERT_TRUE(plan.op(i).encode(source, section, keys, scratch).finite);
    bytes.insert(bytes.end(), section.view().begin(), section.view().end());
    memory->sent(slice, {plan.op(i), section.view(), keys, scratch, decoder});
    plan.op(i).add(section.view(), 1, std::span(sent).subspan(slice.offset, slice.count), keys,
                   scratch);
  }

  void commit() {
    const std::size_t all[] = {0, 1, 2};
    memory->commit({all, all});
  }

  void step(std::span<const float> gradient, std::uint64_t step) {
    run(gradient, step);
    commit();
    for (std::size_t i = 0; i < kCount; ++i) {
      delivered[i] += sent[i];
      parameters[i] -= lr * mean[i];
    }
  }

  std::vector<float> kept(const std::string& role) const {
    return load_tensors(role, kModel, memory->save());
  }
};

// Sums of few small integers are exact, so sums agree to the bit.
std::vector<float> integers(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> x(kCount);
  for (float& value : x) value = static_cast<float>(random() % 201) - 100;
  return x;
}

std::vector<std::uint8_t> bytes_of(const Memory& memory) {
  const Buffer state = write_state(memory.save());
  return {state.view().begin(), state.view().end()};
}

// Every memory by its examples: a new one is tested here by being registered.
template <class Body>
void for_every_memory(Body body) {
  for (const MemoryInfo& info : memories()) {
    EXPECT_FALSE(info.examples.empty()) << info.name;
    for (const std::string& spec : info.examples) {
      SCOPED_TRACE(spec);
      body(info, spec);
    }
  }
}

bool fits(const std::string& memory, const std::string& op) {
  return misfit(memory, make_plan(kModel, "tensor", parse_operator(op))).empty();
}

TEST(Memory, AStepThatIsNotCommittedLeavesNoTrace) {
  for_every_memory([](const MemoryInfo&, const std::string& spec) {
    Bench bench(spec, "natural"), straight(spec, "natural");
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto before = bytes_of(*bench.memory);
      const double norm = bench.memory->residual_norm();
      bench.run(gaussian(kCount, 1e30F, 50 + step), step);
      EXPECT_EQ(bytes_of(*bench.memory), before) << step;
      EXPECT_EQ(bench.memory->residual_norm(), norm) << step;
      bench.step(gaussian(kCount, 1, step), step);
      straight.step(gaussian(kCount, 1, step), step);
      EXPECT_EQ(bench.bytes, straight.bytes) << step;
      EXPECT_EQ(bytes_of(*bench.memory), bytes_of(*straight.memory)) << step;
    }
  });
}

TEST(Memory, StateSurvivesBytesAndAnotherLayout) {
  for_every_memory([](const MemoryInfo&, const std::string& spec) {
    for (const char* layout : {"tensor", "whole", "split:13", "fused:100"})
      for (const std::uint64_t steps : {0, 1, 3}) {
        SCOPED_TRACE(layout + std::string(" after ") + std::to_string(steps));
        Bench bench(spec, "natural"), other(spec, "natural", layout);
        for (std::uint64_t step = 0; step < steps; ++step)
          bench.step(gaussian(kCount, 1, step), step);
        other.step(gaussian(kCount, 1, 9), 9);  // is forgotten by loading
        other.memory->load(read_state(write_state(bench.memory->save()).view()));
        other.parameters = bench.parameters;
        EXPECT_EQ(bytes_of(*other.memory), bytes_of(*bench.memory));
        bench.step(gaussian(kCount, 1, steps), steps);
        other.step(gaussian(kCount, 1, steps), steps);
        EXPECT_EQ(other.offered, bench.offered);
        EXPECT_EQ(other.mean, bench.mean);
        if (std::string(layout) == "tensor") {
          EXPECT_EQ(other.bytes, bench.bytes);
        }
        EXPECT_EQ(bytes_of(*other.memory), bytes_of(*bench.memory));
      }
  });
}

TEST(Memory, AForeignStateIsRefusedAndChangesNothing) {
  for_every_memory([](const MemoryInfo& info, const std::string& spec) {
    Bench bench(spec, "natural");
    bench.step(gaussian(kCount, 1, 1), 0);
    const auto before = bytes_of(*bench.memory);
    const State mine = bench.memory->save();
    const auto expect_refusal = [&](const State& state) {
      EXPECT_THROW(bench.memory->load(state), DataError);
      EXPECT_EQ(bytes_of(*bench.memory), before);
    };
    for (const auto& [name, values] : mine) {
      State state = mine;
      state[name].push_back(1);
      expect_refusal(state);
      state.erase(name);
      expect_refusal(state);
    }
    State more = mine;
    more["another/a"] = {1};
    expect_refusal(more);
    for_every_memory([&](const MemoryInfo& other, const std::string& other_spec) {
      if (other.name == info.name) return;
      Bench foreign(other_spec, "natural");
      foreign.step(gaussian(kCount, 1, 1), 0);
      expect_refusal(foreign.memory->save());
    });
  });
}

// Powers of two, without a bias where the memory asks for that.
std::string powers_for(const MemoryInfo& info) {
  return info.wants_unbiased ? "natural" : "natural:nearest";
}

TEST(Memory, TheResidualsNormIsWhatNaturalCompressionDropped) {
  for_every_memory([](const MemoryInfo& info, const std::string& spec) {
    const bool owes = info.name != "none" && !info.wants_unbiased;
    Bench bench(spec, powers_for(info));
    EXPECT_EQ(bench.memory->residual_norm(), 0);
    bench.step(gaussian(kCount, 1, 1), 0);
    const double dropped = std::sqrt(squared_distance(bench.offered, bench.sent));
    const double unit = spec.ends_with("step") ? bench.lr : 1;
    EXPECT_NEAR(bench.memory->residual_norm(), owes ? unit * dropped : 0, 0.004 * dropped);
    EXPECT_EQ(bench.memory->residual_norm() > 0, owes);
  });
}

TEST(Memory, OperatorsThatAreNoContractionAreRefusedWithARemedy) {
  for_every_memory([](const MemoryInfo& info, const std::string& spec) {
    EXPECT_EQ(fits(spec, "randomk:0.1"), !info.wants_contraction);
  });
  const auto refusal = [](const char* op) {
    return message_of<UsageError>([&] { Bench("feedback:0.5", op); });
  };
  EXPECT_EQ(refusal("randomk:0.1"),
            "memory 'feedback' diverges with 'randomk:0.1' on slice 'a', which is no contraction "
            "(omega 9); use 'shrink+randomk:0.1', which scales it by 1/(1+omega)");
  EXPECT_EQ(refusal("terngrad:2.5"),
            "memory 'feedback' diverges with 'terngrad:2.5' on slice 'a', which is no contraction; "
            "allowed: operators with a delta above 0 (see list)");
  EXPECT_EQ(message_of<UsageError>([] { Bench("diana", "topk:0.1"); }),
            "memory 'diana' needs an operator that is unbiased, which 'topk:0.1' is not on slice "
            "'a'; allowed: operators with an omega (see list), or memory feedback or ef21");
  auto ends = make_thread_transports(1);
  EXPECT_EQ(
      message_of<UsageError>([&] {
        make_aggregator(
            "gather",
            {.transport = *ends[0],
             .model = kModel,
             .plan = make_plan(kModel, "tensor", parse_operator("natural")),
             .warmup = {{.until = 3,
                         .plan = make_plan(kModel, "tensor", parse_operator("terngrad:2.5"))}},
             .memory = "feedback"});
      }),
      refusal("terngrad:2.5"));
}

TEST(Memory, UnknownNamesListTheKnown) {
  std::vector<std::string> names;
  for (const MemoryInfo& info : memories()) names.push_back(info.name);
  EXPECT_EQ(message_of<UsageError>([] { Bench("feedbak", "natural"); }),
            "no memory 'feedbak'; known: " + join(names, " "));
  EXPECT_EQ(message_of<UsageError>([] { Bench("none+none", "natural"); }),
            "a memory is one word, not 'none+none'");
  EXPECT_EQ(
      message_of<UsageError>([] { Bench("feedback:2", "natural"); }),
      "feedback: '2' is not allowed; allowed: decay = 0 to 1, store = fp32 | bf16 | 8bit, units = "
      "gradient | step, masking = off | on");
}

TEST(None, RemembersNothing) {
  Bench bench("none", "natural");
  const auto gradient = gaussian(kCount, 1, 1);
  const Source x =
      bench.memory->source(bench.plan.layout[0], Floats(std::span(gradient).first(300)));
  EXPECT_EQ(x.as_it_lies(), gradient.data()) << "no copy is made";
  EXPECT_TRUE(bench.memory->save().empty());
}

TEST(Feedback, WhatWasSentPlusTheResidualIsTheSumOfGradients) {
  for (const std::string& op : example_specs()) {
    if (!fits("feedback", op)) continue;
    SCOPED_TRACE(op);
    Bench bench("feedback", op);
    std::vector<double> sum(kCount);
    for (std::uint64_t step = 0; step < 20; ++step) {
      const auto gradient = gaussian(kCount, 1, step);
      bench.step(gradient, step);
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += gradient[i];
    }
    const auto owed = bench.kept("feedback");
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_NEAR(bench.delivered[i] + owed[i], sum[i], 1e-4) << i;
  }
}

// The sums over all steps agree to the bit, each step's share multiplied by decay once per later
// step and, for a memory that keeps steps, by the learning rate.
void expect_conservation(const std::string& memory, const std::string& role, double decay,
                         bool in_steps) {
  for (const char* op : {"natural", "topk:0.1", "identity"}) {
    SCOPED_TRACE(memory + " with " + op);
    Bench bench(memory, op, "whole");
    std::vector<double> sent(kCount), sum(kCount);
    for (std::uint64_t step = 0; step < 8; ++step) {
      const auto gradient = integers(step);
      bench.lr = step < 4 ? 0.5F : 0.125F;
      bench.step(gradient, step);
      const double unit = in_steps ? bench.lr : 1;
      for (std::size_t i = 0; i < kCount; ++i) {
        sent[i] = decay * sent[i] + unit * bench.sent[i];
        sum[i] = decay * sum[i] + unit * gradient[i];
      }
    }
    const auto owed = bench.kept(role);
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(sent[i] + owed[i], sum[i]) << i;
  }
}

TEST(Feedback, ConservationIsExactOnIntegers) {
  expect_conservation("feedback", "feedback", 1, false);
  expect_conservation("feedback:0.5", "feedback", 0.5, false);
  expect_conservation("feedback:step", "feedback.step", 1, true);
  expect_conservation("feedback:0.5,step", "feedback.step", 0.5, true);
}

TEST(Feedback, Bfloat16LosesNoMoreThanItsRounding) {
  for (const char* op : {"natural:nearest", "topk:0.1"}) {
    SCOPED_TRACE(op);
    Bench bench("feedback:bf16", op);
    std::vector<double> sum(kCount), lost(kCount);
    for (std::uint64_t step = 0; step < 20; ++step) {
      const auto gradient = gaussian(kCount, 1, step);
      bench.step(gradient, step);
      const auto owed = bench.kept("feedback");
      for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(owed[i]) & 0xffffU, 0U) << owed[i];
        sum[i] += gradient[i];
        lost[i] += std::abs(owed[i]) / 256 * 1.01 + 1e-6;  // and the rounding of float sums
        EXPECT_NEAR(bench.delivered[i] + owed[i], sum[i], lost[i]) << i;
      }
    }
  }
}

// What is stored is the nearest, and of two as near the one whose last bit is 0.
TEST(Feedback, Bfloat16RoundsToNearestEven) {
  Bench bench("feedback:bf16", "topk:0.1");
  std::vector<float> gradient(kCount);
  gradient[0] = gradient[1] = gradient[2] = gradient[3] = 1;
  for (std::size_t i = 0; i < 30; ++i) gradient[100 + i] = 8;  // the largest tenth, as it is sent
  gradient[0] += 0x1p-8F;
  gradient[1] += 3 * 0x1p-8F;
  gradient[2] += 0x1p-8F + 0x1p-20F;
  bench.step(gradient, 0);
  const auto owed = bench.kept("feedback");
  EXPECT_EQ(owed[0], 1);
  EXPECT_EQ(owed[1], 1 + 0x1p-6F);
  EXPECT_EQ(owed[2], 1 + 0x1p-7F);
  EXPECT_EQ(owed[3], 1);
}

// The largest of each entry's group of 64 neighbours in its tensor.
std::vector<double> largest_around(std::span<const float> x) {
  std::vector<double> largest(kCount);
  std::size_t begin = 0;
  for (const Tensor& tensor : kModel) {
    for (std::size_t from = 0; from < tensor.count(); from += 64) {
      const std::size_t count = std::min<std::size_t>(64, tensor.count() - from);
      double most = 0;
      for (const float value : x.subspan(begin + from, count))
        most = std::max(most, std::abs(double{value}));
      std::fill_n(largest.begin() + static_cast<std::ptrdiff_t>(begin + from), count, most);
    }
    begin += tensor.count();
  }
  return largest;
}

// In no step is more than 1/63.5 of the largest neighbour lost or made up, and over draws nothing.
TEST(Feedback, BytesLoseNothingInTheMean) {
  constexpr std::uint64_t kRuns = 400, kSteps = 12;
  for (const char* op : {"natural:nearest", "topk:0.1"}) {
    SCOPED_TRACE(op);
    std::vector<double> mean(kCount), squares(kCount);
    double all = 0, all_squares = 0;
    for (std::uint64_t run = 0; run < kRuns; ++run) {
      Bench bench("feedback:8bit", op);
      bench.seed = run;
      std::vector<double> sum(kCount), bound(kCount);
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        const auto gradient = gaussian(kCount, 1, step);
        bench.step(gradient, step);
        const auto owed = bench.kept("feedback");
        std::vector<float> left(kCount);
        for (std::size_t i = 0; i < kCount; ++i) left[i] = bench.offered[i] - bench.sent[i];
        const auto largest = largest_around(left);
        for (std::size_t i = 0; i < kCount; ++i) {
          sum[i] += gradient[i];
          bound[i] += largest[i] / 63.5 * (1 + 1e-5) + 1e-6;
          ASSERT_NEAR(bench.delivered[i] + owed[i], sum[i], bound[i]) << i;
        }
      }
      const auto owed = bench.kept("feedback");
      double error = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const double lost = bench.delivered[i] + owed[i] - sum[i];
        mean[i] += lost / kRuns;
        squares[i] += lost * lost / kRuns;
        error += lost;
      }
      all += error / kRuns;
      all_squares += error * error / kRuns;
    }
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_NEAR(mean[i], 0, 6 * std::sqrt(squares[i] / kRuns) + 1e-6) << i;
    EXPECT_GT(all_squares, 0);
    EXPECT_NEAR(all, 0, 6 * std::sqrt(all_squares / kRuns) + 1e-4) << "of all entries together";
  }
}

// Slices that begin anywhere, steps that came to nothing before, other draws: what is kept as bytes
// is a function of what was left, the step and the position.
TEST(Feedback, BytesDoNotDependOnHowTheModelIsCut) {
  std::vector<std::vector<std::uint8_t>> states;
  for (const char* layout : {"tensor", "whole", "split:13", "split:100", "split:1", "fused:100"}) {
    Bench bench("feedback:8bit", "natural", layout);
    for (std::uint64_t step = 0; step < 4; ++step) {
      bench.run(gaussian(kCount, 50, 100 + step), step);  // is not committed
      bench.step(gaussian(kCount, 1, step), step);
    }
    states.push_back(bytes_of(*bench.memory));
    EXPECT_EQ(states.back(), states.front()) << layout;
  }
}

TEST(Feedback, BytesGoOnFromAStateOfFloatsAndBack) {
  Bench floats("feedback", "topk:0.1"), bytes("feedback:8bit", "topk:0.1");
  floats.step(gaussian(kCount, 1, 1), 0);
  bytes.memory->load(floats.memory->save());
  const auto owed = floats.kept("feedback"), rounded = bytes.kept("feedback");
  const auto largest = largest_around(owed);
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_NEAR(rounded[i], owed[i], largest[i] / 63.5 + 1e-30) << i;
  floats.memory->load(bytes.memory->save());
  EXPECT_EQ(floats.kept("feedback"), rounded);
}

TEST(Feedback, UnitsDifferOnlyWhenTheLearningRateChanges) {
  Bench gradients("feedback", "natural"), steps("feedback:step", "natural");
  for (std::uint64_t step = 0; step < 5; ++step) {
    gradients.step(gaussian(kCount, 1, step), step);
    steps.step(gaussian(kCount, 1, step), step);
    EXPECT_EQ(steps.bytes, gradients.bytes) << step;
  }
  steps.lr = gradients.lr / 2;  // what is owed to the model is now twice as many gradients
  gradients.run(gaussian(kCount, 1, 5), 5);
  steps.run(gaussian(kCount, 1, 5), 5);
  const auto owed = gradients.kept("feedback"), gradient = gaussian(kCount, 1, 5);
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_NEAR(steps.offered[i], gradient[i] + 2 * owed[i], 1e-6);
}

TEST(Feedback, AStateInOtherUnitsIsRefused) {
  EXPECT_EQ(
      message_of<DataError>([] {
        Bench("feedback:step", "natural").memory->load(Bench("feedback", "natural").memory->save());
      }),
      "the state has no 'feedback.step/a'");
}

TEST(Feedback, StepsNeedALearningRate) {
  Bench bench("feedback:step", "natural");
  for (const auto& [lr, text] : {std::pair(0.0F, "0"), {-1.0F, "-1"}, {NAN, "nan"}}) {
    bench.lr = lr;
    EXPECT_EQ(message_of<UsageError>([&] { bench.run(integers(1), 3); }),
              std::string("memory 'feedback:units=step' divides by the learning rate, which is ") +
                  text + " in step 3; allowed: above 0");
  }
}

TEST(Momentum, IsZeroWhereSomethingWasSentAndUntouchedElsewhere) {
  Bench bench("feedback:masking=on", "topk:0.1");
  const auto before = bench.momentum;
  bench.run(integers(1), 0);
  EXPECT_EQ(bench.momentum, before) << "until it is committed";
  bench.commit();
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(bench.momentum[i], bench.sent[i] != 0 ? 0 : before[i]) << i;
    zeros += bench.momentum[i] == 0;
  }
  EXPECT_GT(zeros, 0U);
  EXPECT_LT(zeros, kCount);
}

// Steps over different tensors may be open at once, and each commits its own.
TEST(Memory, TensorsCommitOneByOne) {
  for_every_memory([](const MemoryInfo& info, const std::string& spec) {
    Bench bench(spec, powers_for(info)), straight(spec, powers_for(info));
    bench.step(gaussian(kCount, 1, 1), 0);
    straight.step(gaussian(kCount, 1, 1), 0);
    const State before = bench.memory->save();
    straight.step(gaussian(kCount, 1, 2), 1);
    const State after = straight.memory->save();
    bench.run(gaussian(kCount, 1, 2), 1);
    const std::size_t second[] = {1}, others[] = {0, 2};
    bench.memory->commit({second, second});
    for (const auto& [name, values] : bench.memory->save())
      EXPECT_EQ(values, (name.ends_with("/b") ? after : before).at(name)) << name;
    bench.memory->commit({others, others});
    EXPECT_EQ(bench.memory->save(), after);
  });
}

// The memory against its own definition, entry by entry, to the bit.
TEST(Dgc, IsItsDefinitionAndWhatWasSentPlusVIsTheSumOfU) {
  for (const bool masking : {true, false})
    for (const char* op : {"topk:0.1", "natural", "identity"}) {
      SCOPED_TRACE(op + std::string(masking ? "" : " without masking"));
      Bench bench(masking ? "dgc:0.5" : "dgc:0.5,off", op);
      std::vector<float> u(kCount);
      std::vector<double> sum(kCount);
      for (std::uint64_t step = 0; step < 8; ++step) {
        const auto gradient = integers(step);
        bench.step(gradient, step);
        const auto v = bench.kept("dgc");
        for (std::size_t i = 0; i < kCount; ++i) {
          u[i] = 0.5F * u[i] + gradient[i];
          sum[i] += u[i];
          EXPECT_EQ(bench.delivered[i] + v[i], sum[i]) << i;
          if (masking && bench.sent[i] != 0) u[i] = 0;
          if (bench.sent[i] == bench.offered[i]) {
            EXPECT_EQ(v[i], 0) << "what was sent as it is is not owed";
          }
        }
        EXPECT_EQ(bench.kept("dgc.momentum"), u) << step;
      }
    }
}

TEST(Dgc, ClipsTheWholeGradientAtItsShare) {
  const auto gradient = gaussian(kCount, 1, 1);
  const double norm = std::sqrt(squared(gradient));
  const auto first_step = [&](const std::string& memory, const char* layout) {
    Bench bench(memory, "identity", layout);
    bench.step(gradient, 0);
    return bench.sent;
  };
  const auto clipped = first_step("dgc:clip=2", "tensor");  // four ranks: each at 2 / sqrt(4)
  EXPECT_NEAR(std::sqrt(squared(clipped)), 1, 1e-6);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(clipped[i], gradient[i] / norm, 1e-6);
  EXPECT_EQ(first_step("dgc:clip=2", "whole"), clipped) << "the cut does not matter";
  EXPECT_EQ(first_step("dgc:clip=1000", "tensor"), gradient) << "short ones stay";
  EXPECT_EQ(first_step("dgc", "tensor"), gradient) << "none is clipped";
}

// u and v decay apart, yet with everything sent nothing is left of either.
TEST(Dgc, WithNothingDroppedItIsPlainDescent) {
  Bench bench("dgc", "identity");
  for (std::uint64_t step = 0; step < 5; ++step) {
    const auto gradient = gaussian(kCount, 1, step);
    bench.step(gradient, step);
    EXPECT_EQ(bench.sent, gradient) << step;
    EXPECT_EQ(bench.memory->residual_norm(), 0);
  }
}

TEST(Gmc, WithNothingDroppedItIsMomentumDescent) {
  Bench bench("gmc:0.5", "identity");
  bench.lr = 0.25F;
  bench.parameters = integers(99);
  std::vector<float> w = bench.parameters, momentum(kCount);
  for (std::uint64_t step = 0; step < 8; ++step) {
    const auto gradient = integers(step);
    bench.step(gradient, step);
    for (std::size_t i = 0; i < kCount; ++i) {
      momentum[i] = 0.5F * momentum[i] + gradient[i];
      w[i] -= 0.25F * momentum[i];
    }
    EXPECT_EQ(bench.parameters, w) << step;
  }
}

TEST(Gmc, WhatWasSentPlusTheResidualIsTheSumOfGradientsAndMovement) {
  for (const char* op : {"topk:0.1", "natural"}) {
    Bench bench("gmc:0.5", op);
    bench.parameters = integers(99);
    std::vector<double> sum(kCount);
    auto previous = bench.parameters;
    for (std::uint64_t step = 0; step < 6; ++step) {
      const auto gradient = integers(step), now = bench.parameters;
      bench.step(gradient, step);
      for (std::size_t i = 0; i < kCount; ++i)
        sum[i] += gradient[i] - 0.5 / bench.lr * (now[i] - previous[i]);
      previous = now;
    }
    const auto owed = bench.kept("gmc");
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_EQ(bench.delivered[i] + owed[i], sum[i]) << op << i;
    EXPECT_EQ(bench.kept("gmc.parameters"), previous);
  }
}

TEST(Gmc, NeedsParametersAndALearningRate) {
  Bench bench("gmc", "natural");
  bench.lr = 0;
  EXPECT_EQ(message_of<UsageError>([&] { bench.run(integers(1), 3); }),
            "memory 'gmc' divides by the learning rate, which is 0 in step 3; allowed: above 0");
  bench.lr = 1;
  bench.parameters.clear();
  EXPECT_EQ(message_of<UsageError>([&] { bench.run(integers(1), 3); }),
            "memory 'gmc' needs the model's 371 parameters with each step, not 0");
}

TEST(Ef21, HIsTheSumOfEverythingSentAndTheMeanThatOfAllMeans) {
  for (const char* op : {"topk:0.1", "natural"}) {
    SCOPED_TRACE(op);
    Bench bench("ef21", op);
    std::vector<float> h(kCount);
    for (std::uint64_t step = 0; step < 20; ++step) {
      const auto gradient = gaussian(kCount, 1, step / 10);
      bench.step(gradient, step);
      for (std::size_t i = 0; i < kCount; ++i) h[i] += bench.sent[i];
      EXPECT_EQ(bench.kept("ef21"), h) << step;
      EXPECT_EQ(bench.kept("ef21.mean"), h) << "of one rank";
      EXPECT_EQ(bench.mean, h) << "and it is handed out";
      EXPECT_NEAR(bench.memory->residual_norm(), std::sqrt(squared_distance(gradient, h)), 1e-5);
    }
    // Ten steps of the same gradient: what is owed shrinks towards nothing.
    EXPECT_LT(bench.memory->residual_norm(), 0.5 * std::sqrt(squared(h)));
  }
}

TEST(Ef21, WithNothingDroppedTheMeanIsTheGradient) {
  Bench bench("ef21", "identity");
  for (std::uint64_t step = 0; step < 5; ++step) {
    bench.step(integers(step), step);
    EXPECT_EQ(bench.mean, integers(step));
    EXPECT_EQ(bench.memory->residual_norm(), 0);
  }
}

TEST(State, WhatIsWrongWithAStateIsNamed) {
  Bench bench("feedback", "natural");
  const auto refusal = [&](const State& state) {
    return message_of<DataError>([&] { bench.memory->load(state); });
  };
  State state = bench.memory->save();
  state.erase("feedback/b");
  EXPECT_EQ(refusal(state), "the state has no 'feedback/b'");
  state["feedback/b"] = {1};
  EXPECT_EQ(refusal(state), "the state's 'feedback/b' has 1 entries; the model's tensor has 7");
  state["feedback/b"] = std::vector<float>(7);
  state["feedback/d"] = {1};
  EXPECT_EQ(refusal(state), "the state has 'feedback/d', which is not remembered here");
}

TEST(State, DamagedBytesAreRefused) {
  const Buffer bytes =
      write_state({{"feedback/a", {1, 2, 3}}, {"feedback/b", {}}, {"odd", {INFINITY}}});
  EXPECT_EQ(read_state(bytes.view()).at("odd")[0], INFINITY);
  EXPECT_EQ(read_state(write_state({}).view()), State());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::uint8_t> damaged(bytes.view().begin(), bytes.view().end());
    damaged[i] ^= 0x10;
    EXPECT_THROW(read_state(damaged), DataError) << i;
  }
  EXPECT_THROW(read_state(compress(parse_operator("natural"), std::vector<float>(5)).view()),
               DataError);
}

}  // namespace
}  // namespace laconic::testing
