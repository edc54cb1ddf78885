// Memories: conservation, transactions, and state that survives another layout.
#include "support.h"

namespace laconic::testing {
namespace {

const Model kModel = {{"a", {30, 10}}, {"b", {7}}, {"c", {4, 4, 4}}};

struct Bench {
  Plan plan;
  std::unique_ptr<Memory> memory;
  Scratch scratch;
  std::vector<float> delivered = std::vector<float>(count_of(kModel));

  Bench(const std::string& op, const std::string& layout, const std::string& name = "feedback")
      : plan(make_plan(kModel, layout, parse_operator(op))),
        memory(make_memory(name, kModel, plan)) {}

  // One step up to, but not including, its end.
  void run(std::span<const float> gradient, std::uint64_t step) {
    for (std::size_t i = 0; i < plan.layout.size(); ++i) {
      const Slice& slice = plan.layout[i];
      const Keys keys = make_keys(1, step, 0).at(slice.offset);
      const auto x =
          memory->compensate(slice, gradient.subspan(slice.offset, slice.count), {.step = step});
      Buffer section;
      ASSERT_TRUE(plan.op(i).encode(x, section, keys, scratch));
      const Sent sent{plan.op(i), section.view(), keys, scratch};
      memory->absorb(slice, sent);
      sent.add_to(std::span(delivered).subspan(slice.offset, slice.count), 1);
    }
  }
};

std::vector<float> residual(const Memory& memory) {
  return load_tensors("feedback", kModel, memory.save());
}

TEST(Feedback, WhatWasSentPlusTheResidualIsTheSumOfGradients) {
  for (const std::string& op : example_specs()) {
    SCOPED_TRACE(op);
    Bench bench(op, "tensor");
    std::vector<double> sum(count_of(kModel));
    for (std::uint64_t step = 0; step < 20; ++step) {
      const auto gradient = gaussian(sum.size(), 1, step);
      bench.run(gradient, step);
      bench.memory->commit();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
    const auto owed = residual(*bench.memory);
    for (std::size_t i = 0; i < sum.size(); ++i)
      EXPECT_NEAR(bench.delivered[i] + owed[i], sum[i], 1e-4) << i;
    EXPECT_NEAR(bench.memory->residual_norm(), std::sqrt(squared(owed)), 1e-6);
  }
}

// Small integers and a power of two as result: every addition is exact, so the sums agree to the
// bit.
TEST(Feedback, ConservationIsExactOnIntegers) {
  Bench bench("natural", "whole");
  std::vector<float> sum(count_of(kModel));
  std::mt19937_64 random(1);
  for (std::uint64_t step = 0; step < 50; ++step) {
    std::vector<float> gradient(sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += gradient[i] = static_cast<float>(random() % 201) - 100;
    bench.run(gradient, step);
    bench.memory->commit();
  }
  const auto owed = residual(*bench.memory);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(bench.delivered[i] + owed[i], sum[i]) << i;
}

TEST(Feedback, ARolledBackStepLeavesNoTrace) {
  Bench bench("natural", "tensor");
  bench.run(gaussian(count_of(kModel), 1, 1), 0);
  bench.memory->commit();
  const auto before = residual(*bench.memory);
  bench.run(gaussian(count_of(kModel), 1e30F, 2), 1);
  bench.memory->rollback();
  EXPECT_EQ(residual(*bench.memory), before);
  bench.run(gaussian(count_of(kModel), 1, 3), 1);
  bench.memory->commit();

  Bench straight("natural", "tensor");
  straight.run(gaussian(count_of(kModel), 1, 1), 0);
  straight.memory->commit();
  straight.run(gaussian(count_of(kModel), 1, 3), 1);
  straight.memory->commit();
  EXPECT_EQ(residual(*bench.memory), residual(*straight.memory));
}

TEST(Feedback, StateSurvivesBytesAndAnotherLayout) {
  Bench bench("natural", "tensor");
  bench.run(gaussian(count_of(kModel), 1, 1), 0);
  bench.memory->commit();
  const Buffer bytes = write_state(bench.memory->save());
  for (const char* layout : {"whole", "split:13", "fused:100"}) {
    Bench other("half", layout);
    other.memory->load(read_state(bytes.view()));
    EXPECT_EQ(residual(*other.memory), residual(*bench.memory)) << layout;
  }
}

TEST(Feedback, AStateOfAnotherModelIsRefusedAndChangesNothing) {
  Bench bench("natural", "tensor");
  bench.run(gaussian(count_of(kModel), 1, 1), 0);
  bench.memory->commit();
  const auto before = residual(*bench.memory);
  const auto refusal = [&](State state) {
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
  EXPECT_EQ(residual(*bench.memory), before);
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

TEST(None, RemembersNothing) {
  Bench bench("natural", "tensor", "none");
  const auto gradient = gaussian(count_of(kModel), 1, 1);
  const auto x = bench.memory->compensate(bench.plan.layout[0], std::span(gradient).first(300), {});
  EXPECT_EQ(x.data(), gradient.data()) << "no copy is made";
  EXPECT_EQ(bench.memory->residual_norm(), 0);
  EXPECT_TRUE(bench.memory->save().empty());
  EXPECT_NO_THROW(bench.memory->load({}));
  EXPECT_THROW(bench.memory->load({{"feedback/a", {1}}}), DataError);
}

TEST(Memory, UnknownNamesListTheKnown) {
  const Plan plan = make_plan(kModel, "tensor", parse_operator("natural"));
  EXPECT_EQ(message_of<UsageError>([&] { make_memory("feedbak", kModel, plan); }),
            "no memory 'feedbak'; known: feedback none");
}

}  // namespace
}  // namespace laconic::testing
