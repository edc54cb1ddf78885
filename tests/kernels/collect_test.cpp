// The fused pass against what it is made of, on every instruction set, at every alignment.
#include "laconic/kernels/collect.h"

#include <bit>

#include "laconic/kernels/stream.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

struct Case {
  bool kept, leaves, streamed;
  float a, b, c, scale;
  kernels::Bounds bounds;
};

struct Result {
  std::vector<std::uint32_t> positions;
  std::vector<float> values, left;
  std::uint32_t largest = 0;
  friend bool operator==(const Result&, const Result&) = default;
};

template <class T>
std::vector<T> copy(const Array<T>& array) {
  return {array.view().begin(), array.view().end()};
}

constexpr float kBefore = -7;  // what stands in `left` where nothing is written

// Entry by entry, as the header says it.
Result plainly(const Case& how, std::span<const float> fresh, std::span<const float> kept) {
  Result result{{}, {}, std::vector<float>(fresh.size(), kBefore)};
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    const float ax = how.a * fresh[i], bx = how.kept ? how.b * kept[i] : 0;
    const float x = how.kept ? ax + bx : ax;
    if (how.leaves) result.left[i] = how.c * x;
    const auto bits = std::bit_cast<std::uint32_t>(how.scale * x);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    result.largest = std::max(result.largest, magnitude);
    if (magnitude < (bits >> 31 ? how.bounds.below : how.bounds.above)) continue;
    result.positions.push_back(static_cast<std::uint32_t>(1000 + i));
    result.values.push_back(how.scale * x);
  }
  return result;
}

Result fused(const Case& how, std::span<const float> fresh, std::span<const float> kept,
             std::size_t shift) {
  Array<std::uint32_t> positions;
  Array<float> values;
  alignas(64) float left[6000];
  std::ranges::fill(left, kBefore);
  Result result;
  result.largest =
      kernels::collect({fresh.data(), how.kept ? kept.data() : nullptr, how.a, how.b}, fresh.size(),
                       {how.leaves ? left + shift : nullptr, how.c, how.streamed}, how.scale,
                       how.bounds, 1000, positions, values);
  kernels::end_stream();
  result.positions = copy(positions);
  result.values = copy(values);
  result.left.assign(left + shift, left + shift + fresh.size());
  EXPECT_TRUE(std::all_of(left, left + shift, [](float x) { return x == kBefore; }));
  EXPECT_EQ(left[shift + fresh.size()], kBefore);
  return result;
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(Collect, EqualsItsPlainTwin) {
  const auto all_fresh = made_up(5000, 1), all_kept = made_up(5000, 2);
  const std::vector<Case> cases = {
      {false, false, false, 1, 1, 1, 1, {bits(1), bits(1)}},
      {true, false, false, 1, 1, 1, 1, {bits(0.5F), bits(2)}},
      {true, true, false, 1, 0.9F, 1, 1, {1, bits(1)}},
      {true, true, true, 0.3F, 0.7F, 3, 1, {bits(0.3F), bits(0.4F)}},
      {false, true, true, 2, 1, 0.5F, 0.25F, {bits(0.2F), 1}},
      {false, true, false, 1, 1, 1, 0.8F, {bits(1e30F), bits(1e30F)}},
  };
  for (std::size_t number = 0; number < cases.size(); ++number)
    for (const std::size_t count : {0, 1, 7, 63, 64, 65, 100, 4096, 4999})
      for (const std::size_t shift : {0, 1, 3, 4, 15}) {
        const auto fresh = std::span(all_fresh).subspan(shift % 2, count);
        const auto kept = std::span(all_kept).first(count);
        const Result expected = plainly(cases[number], fresh, kept);
        on_every_cpu([&](const std::string& cpu) {
          EXPECT_TRUE(fused(cases[number], fresh, kept, shift) == expected)
              << "case " << number << ", " << count << " entries, " << shift << ", " << cpu;
        });
      }
}

// Large, infinite and not a number, wherever they stand.
TEST(Collect, TellsWhatIsNotFinite) {
  for (const float wrong : {INFINITY, -INFINITY, NAN})
    for (const std::size_t at : {0, 5, 64, 99}) {
      std::vector<float> x(100, 1.0F);
      x[at] = wrong;
      on_every_cpu([&](const std::string&) {
        Array<std::uint32_t> positions;
        Array<float> values;
        EXPECT_GE(
            kernels::collect({x.data()}, x.size(), {}, 1, {bits(2), bits(2)}, 0, positions, values),
            0x7f800000U);
      });
    }
}

}  // namespace
}  // namespace laconic::testing
