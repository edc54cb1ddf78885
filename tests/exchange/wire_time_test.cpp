// Whatever the link took for its bytes is no less than what is said of it.
#include "laconic/exchange/wire_time.h"

#include <gtest/gtest.h>

namespace laconic::testing {
namespace {

constexpr double kPerByte = 1e-7;

TEST(WireTime, IsFromTheFirstLegUntilAllHaveVoted) {
  WireTime wire;
  wire.start(0.5, 1000, true);
  wire.land(0.6);
  EXPECT_NEAR(wire.seconds(0.625, 11000, 10000), 0.125, 1e-12);
}

// A peer's frame is there already, and a rank's own 150 kB are in a buffer after a millisecond.
// They leave while it computes, and the step's last leg waits for them.
TEST(WireTime, TakesNoBufferForAFastLink) {
  WireTime wire;
  wire.start(0, 0, true);
  wire.land(0.001);
  wire.start(0.02, 150'000, true);
  wire.land(0.021);
  EXPECT_GE(wire.seconds(0.0215, 160'000, 160'000) / 160'000, kPerByte);
}

TEST(WireTime, JoinsUnitsThatOverlap) {
  WireTime wire;
  wire.start(0, 0, true);
  wire.start(0.01, 100, true);
  wire.land(0.02);
  wire.start(0.02, 200, true);
  wire.land(0.03);
  wire.land(0.04);
  EXPECT_NEAR(wire.seconds(0.05, 300, 300), 0.05, 1e-12);
}

// What is computed between two legs of a unit is none of the link's time.
TEST(WireTime, LeavesOutWhatAUnitComputes) {
  WireTime wire;
  wire.start(0, 0, true);
  wire.land(0.01);
  wire.start(0.05, 500, false);
  wire.land(0.06);
  EXPECT_NEAR(wire.seconds(0.07, 1000, 1000), 0.03, 1e-12);
}

// A last unit of which this rank sends nothing tells nothing of the link.
TEST(WireTime, IsTheWholeStepsWhereNothingLeftLast) {
  WireTime wire;
  wire.start(0.5, 0, true);
  wire.land(0.6);
  wire.start(0.9, 700, true);
  wire.land(1);
  EXPECT_NEAR(wire.seconds(1.5, 700, 700), 1, 1e-12);
}

}  // namespace
}  // namespace laconic::testing
