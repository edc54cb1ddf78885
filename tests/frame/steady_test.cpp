// Writing and reading the frames of step after step takes no new memory.
#include "tests/allocations.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

// A model in slices with entries between them, one of which rests and one of which is not finite.
class Steps {
 public:
  Steps() { bad_[7] = std::numeric_limits<float>::infinity(); }

  void write(std::uint64_t step) {
    header_.step = step;
    out_.clear();
    writer_.begin(out_, header_, operators_);
    for (std::uint64_t i = 0; i < kSlices; ++i) add_slice(i);
    writer_.finish();
  }

  void read() {
    read_frame(out_.view(), {}, frame_);
    ASSERT_EQ(frame_.sections.size(), kSlices);
    ASSERT_EQ(frame_.header.step, header_.step);
  }

 private:
  static constexpr std::size_t kSlices = 40, kEntries = 50;

  void add_slice(std::uint64_t i) {
    const std::uint64_t first = i * (kEntries + 3);
    if (i == 5) {
      writer_.rest(first, kEntries, i % 2, "a tensor with a name that is not short");
    } else {
      writer_.add(first, i == 9 ? bad_ : x_, i % 2, header_.keys(), scratch_,
                  "a tensor with a name that is not short");
    }
  }

  std::vector<Operator> operators_ = {parse_operator("half:bf16"), parse_operator("identity")};
  FrameHeader header_{.rank = 1, .ranks = 2, .shape = {kSlices, kEntries + 3}};
  std::vector<float> x_ = made_up(kEntries), bad_ = x_;
  Scratch scratch_;
  FrameWriter writer_;
  Buffer out_;
  Frame frame_;
};

TEST(SteadyFrames, TheCounterCounts) {
  EXPECT_GT(allocations_in([] { parse_operator("natural"); }), 1U);
}

TEST(SteadyFrames, WritingAndReadingAllocateNothing) {
  Steps steps;
  steps.write(1);
  steps.read();
  for (std::uint64_t step = 2; step < 5; ++step) {
    EXPECT_EQ(allocations_in([&] { steps.write(step); }), 0U);
    EXPECT_EQ(allocations_in([&] { steps.read(); }), 0U);
  }
}

}  // namespace
}  // namespace laconic::testing
