// Step times with closed forms, and against a link that really waits.
#include "laconic/planner/clock.h"

#include "laconic/planner/link.h"
#include "tests/support.h"

namespace laconic {
namespace {

ForeseenLeg leg_of(double bytes) {
  return {.out = bytes, .in = bytes, .most_out = bytes, .most_in = bytes};
}

constexpr Link kLink{.latency_seconds = 0.01, .bits_per_second = 8000};  // 1000 bytes a second

double vote_seconds(int ranks) {
  return static_cast<double>(vote_bytes()) * (ranks - 1) / 1000 + kLink.latency_seconds;
}

TEST(Clock, OneLegIsLatencyAndBytes) {
  const std::vector<TimedUnit> units = {{.ready = 0.5, .entries = 0, .unit = {{leg_of(500)}}}};
  EXPECT_NEAR(time_step(units, kLink, {}, 2, true).seconds, 0.5 + 0.5 + 0.01 + vote_seconds(2),
              1e-9);
}

// The link is never idle: units follow each other, and only one latency shows.
TEST(Clock, UnitsShareTheLink) {
  std::vector<TimedUnit> units;
  for (int i = 0; i < 10; ++i) units.push_back({.unit = {{leg_of(100)}}});
  EXPECT_NEAR(time_step(units, kLink, {}, 2, true).seconds, 1 + 0.01 + vote_seconds(2), 0.03);
}

// What travels while the backward pass goes on costs nothing; the last unit's does.
TEST(Clock, HidesBehindTheBackwardPass) {
  std::vector<TimedUnit> units;
  for (int i = 1; i <= 10; ++i) units.push_back({.ready = 0.2 * i, .unit = {{leg_of(100)}}});
  EXPECT_NEAR(time_step(units, kLink, {}, 2, true).seconds, 2 + 0.1 + 0.01 + vote_seconds(2), 1e-9);
}

// Before the means are written the vote leaves where frames carry checksums, after it elsewhere.
TEST(Clock, VotesWhileDecodingWhereFramesAllow) {
  const std::vector<TimedUnit> units = {{.entries = 100, .unit = {{leg_of(500)}}}};
  const Rates rates{.write = 0.01};
  const double vote = vote_seconds(2);
  EXPECT_NEAR(time_step(units, kLink, rates, 2, true).seconds, 0.51 + std::max(1.0, vote), 1e-9);
  EXPECT_NEAR(time_step(units, kLink, rates, 2, false).seconds, 0.51 + 1 + vote, 1e-9);
}

// Three ranks: of the first unit every rank owns a third, with frames of 100 bytes, the second has
// one owner, whose frames have 60. The second's way back begins when the first's has left, and ends
// when its owner has sent both others their frames.
TEST(Clock, ShardsGoThereAndBackUnitByUnit) {
  const ForeseenLeg third = leg_of(200);
  const ForeseenLeg there{.out = 40, .in = 40, .most_out = 60, .most_in = 120};
  const ForeseenLeg back{.out = 40, .in = 40, .most_out = 120, .most_in = 60};
  const std::vector<TimedUnit> units = {{.unit = {{third, third}}}, {.unit = {{there, back}}}};
  // By rows: what leaves, until when it takes the way out, when all of it is there.
  //   first there    0.20   0.21
  //   second there   0.24   0.33: 120 bytes come in behind the first's 200
  //   first back     0.44   0.45: from 0.24, when the way out is free
  //   second back    0.48   0.57: the owner's 120 bytes
  const StepTimes times = time_step(units, kLink, {}, 3, true);
  EXPECT_NEAR(times.seconds, 0.44 + 0.12 + 0.01 + vote_seconds(3), 1e-9);
  EXPECT_NEAR(times.on_link, 0.48 + vote_seconds(3) - kLink.latency_seconds, 1e-9);
}

// A message takes its share at both ends, before the leg leaves and when it has come, beside other
// kernels; bytes do, too. On cores of their own nobody waits for it.
TEST(Clock, AddsWhatTheSystemTakesOfCores) {
  const ForeseenLeg leg{
      .messages = 2, .out = 500, .in = 500, .most_out = 500, .most_in = 500, .encoded = 100};
  const std::vector<TimedUnit> units = {{.entries = 100, .unit = {{leg}}}};
  const Rates rates{.encode = 0.001, .write = 0.002};
  const Stack stack{.message = 0.04, .byte = 0.0001};
  const double bytes = static_cast<double>(vote_bytes()) * 2;
  const double of_leg = 2 * stack.message + 500 * stack.byte;
  const double of_vote = 2 * stack.message + bytes * stack.byte;
  const double link = 0.5 + bytes / 1000 + 2 * kLink.latency_seconds;
  const StepTimes times = time_step(units, kLink, rates, 3, false, {1, 1, stack});
  EXPECT_NEAR(times.seconds, 0.1 + of_leg + 0.2 + of_vote + link, 1e-9);
  EXPECT_NEAR(times.kernels, 0.3, 1e-9);
  const Shares half{.one = 0.5, .two = 0.5, .stack = stack};
  EXPECT_NEAR(time_step(units, kLink, rates, 3, false, half).seconds,
              2 * (0.1 + of_leg + 0.2 + of_vote) + link, 1e-9);
  EXPECT_NEAR(time_step(units, kLink, rates, 3, false).seconds, 0.1 + 0.2 + link, 1e-9);
}

TEST(Clock, AloneIsKernelsOnly) {
  const std::vector<TimedUnit> units = {
      {.ready = 1, .entries = 100, .unit = {.legs = {}, .added = 100}}};
  const Rates rates{.add = 0.001, .write = 0.002};
  EXPECT_NEAR(time_step(units, kLink, rates, 1, true).seconds, 1.3, 1e-9);
}

// Four workers on two cores: computing has half a core as it is, and beside the engine a quarter.
TEST(Clock, SharesCores) {
  EXPECT_EQ(shares_of(4, 2).one, 0.5);
  EXPECT_EQ(shares_of(4, 2).two, 0.25);
  EXPECT_EQ(shares_of(4, 6).one, 1);
  EXPECT_EQ(shares_of(4, 6).two, 0.75);
  EXPECT_EQ(shares_of(4, 8).two, 1);
  EXPECT_EQ(shares_of(4, 0).one, 1);
}

// All that processors have to do is done, whatever it waits for: with cores that are always busy a
// step is the backward pass and the kernels of all workers.
TEST(Clock, AddsKernelsToABackwardPassOnTheSameCores) {
  std::vector<TimedUnit> units;
  for (int i = 1; i <= 4; ++i)
    units.push_back({.ready = 0.25 * i, .entries = 100, .unit = {.legs = {}, .added = 100}});
  const Rates rates{.add = 0.0002, .write = 0.0003};  // 0.05 s a unit
  const StepTimes apart = time_step(units, kLink, rates, 1, true);
  EXPECT_NEAR(apart.seconds, 1.05, 1e-9);  // hidden, but for the last
  const StepTimes together = time_step(units, kLink, rates, 1, true, shares_of(4, 2));
  EXPECT_NEAR(together.seconds, 1 + 0.2 * 4 / 2, 1e-9);
  EXPECT_NEAR(together.kernels, apart.kernels, 1e-9);
  // With a core and a half for each the engine beside it has three quarters of what it wants.
  const StepTimes some = time_step(units, kLink, rates, 1, true, shares_of(4, 6));
  EXPECT_NEAR(some.seconds, 1 + 3 * 0.05 / 0.75 * 0.25 + 0.05, 1e-9);
  EXPECT_NEAR(time_step(units, kLink, rates, 1, true, shares_of(4, 8)).seconds, apart.seconds,
              1e-9);
}

// With a core of its own a worker's message hides behind the rest of the pass. Of four that take
// turns on two cores the last begins when the first two are done, and computes twice as fast.
TEST(Clock, TheLastOfThoseThatTakeTurnsIsLate) {
  const std::vector<TimedUnit> units = {{.ready = 0.25, .unit = {{leg_of(700)}}}, {.ready = 1}};
  EXPECT_NEAR(time_step(units, kLink, {}, 2, true).seconds, 1 + vote_seconds(2), 1e-9);
  const StepTimes late = time_step(units, kLink, {}, 2, true, shares_of(4, 2));
  EXPECT_NEAR(late.seconds, 0.625 + 0.7 + 0.01 + vote_seconds(2), 1e-9);
}

// Where the link is what a step waits for, processors have time.
TEST(Clock, SharesCoresWithoutHarmWhereTheLinkIsSlow) {
  const std::vector<TimedUnit> units = {{.ready = 0.5, .entries = 100, .unit = {{leg_of(5000)}}}};
  const Rates rates{.write = 0.0001};
  const double apart = time_step(units, kLink, rates, 2, true).seconds;
  EXPECT_NEAR(time_step(units, kLink, rates, 2, true, shares_of(2, 1)).seconds, apart, 0.05);
}

TEST(Link, IsRateAndLatency) {
  const Link link = parse_link("100mbit,1ms");
  EXPECT_EQ(link.bits_per_second, 1e8);
  EXPECT_EQ(link.latency_seconds, 1e-3);
  EXPECT_EQ(parse_link("1gbit").latency_seconds, 0);
  for (const char* wrong : {"", "fast", "100", "100mbit,", "-1mbit", "0mbit", "1mbit,100s"})
    EXPECT_EQ(testing::message_of<UsageError>([&] { parse_link(wrong); }),
              "link '" + std::string(wrong) +
                  "' is not a rate and a latency such as 100mbit,1ms; units: kbit mbit gbit, us ms "
                  "s");
}

TEST(Stack, IsSecondsForAMessageAndAByte) {
  const Stack stack = parse_stack("6us,0.5ns");
  EXPECT_DOUBLE_EQ(stack.message, 6e-6);
  EXPECT_DOUBLE_EQ(stack.byte, 0.5e-9);
  for (const char* wrong : {"", "6us", "6us,", "6,1ns", "-1us,0s", "100s,0s"})
    EXPECT_EQ(testing::message_of<UsageError>([&] { parse_stack(wrong); }),
              "stack '" + std::string(wrong) +
                  "' is not seconds of a core for a message and for a byte such as 6us,0.4ns; "
                  "units: ns us ms s");
}

// It is processor time, so a busy machine changes little of it.
TEST(Stack, IsMeasuredHere) {
  for (const double rate : {1e3, 1e8, 1e15}) {
    const Stack stack = measure_stack(rate);
    EXPECT_GT(stack.message, 1e-7);
    EXPECT_LT(stack.message, 1e-2);
    EXPECT_LT(stack.byte, 1e-6);
  }
}

}  // namespace
}  // namespace laconic
