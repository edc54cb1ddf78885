// Cuts of both sides at once.
#include "laconic/operators/sides.h"

#include <bit>
#include <cmath>

#include "laconic/kernels/reduce.h"
#include "laconic/kernels/sides.h"

namespace laconic {
namespace {

using kernels::SideBracket;

// Where the k-th largest of a side lies, four deviations of what a sample may be wrong by to either
// side.
void bracket(SideBracket& side, kernels::Side which, std::span<const float> sample, double share,
             Array<std::uint32_t>& memory) {
  const double expected = share * static_cast<double>(sample.size());
  const double slack = 4 * std::sqrt(expected * (1 - share)) + 2;
  const std::size_t counted = kernels::count_on(sample, which);
  const auto at = [&](double rank) {
    return kernels::cut_after(static_cast<std::size_t>(rank), sample, which, 1, 0x7fffffffU, memory)
        .least();
  };
  if (expected + slack <= static_cast<double>(counted)) side.low = at(expected + slack);
  const double upper = std::min(expected - slack, static_cast<double>(counted));
  if (upper >= 1) side.high = at(upper);
}

// What the pass over a side says; false where its bracket was wrong.
bool finish(Sides::Side& side, const SideBracket& found, std::size_t k,
            Array<std::uint32_t>& memory) {
  if (found.above > k) return false;
  side.number = std::min(k, found.above + found.number);
  side.sum = found.sum;
  if (side.number < k && found.low > 1) return false;
  const std::size_t wanted = side.number - found.above;
  if (wanted == found.number) {
    side.cut = {found.low - 1, 0};
  } else if (found.low == found.high || wanted == 0) {
    side.cut = {found.high, wanted};
  } else {
    const std::span inside(reinterpret_cast<const float*>(found.inside), found.number);
    side.cut =
        kernels::cut_after(wanted, inside, kernels::Side::both, found.low, found.high, memory);
  }
  if (found.low == found.high) {
    side.sum += static_cast<double>(wanted) * std::bit_cast<float>(found.low);
    return true;
  }
  double sum = static_cast<double>(side.cut.ties) * std::bit_cast<float>(side.cut.value);
  for (const std::uint32_t m : std::span(found.inside, found.number))
    if (m > side.cut.value) sum += static_cast<double>(std::bit_cast<float>(m));
  side.sum += sum;
  return true;
}

}  // namespace

Sides cut_sides(std::span<const float> x, std::size_t k, std::span<const float> sample,
                StageScratch& scratch) {
  Sides sides;
  if (sample.empty()) return sides;
  const double share = static_cast<double>(k) / static_cast<double>(x.size());
  SideBracket positive, negative;
  bracket(positive, kernels::Side::positive, sample, share, scratch.magnitudes);
  bracket(negative, kernels::Side::negative, sample, share, scratch.magnitudes);
  positive.inside = scratch.chosen.reset(x.size() + kernels::kSpareInside).data();
  negative.inside = scratch.positions.reset(x.size() + kernels::kSpareInside).data();
  sides.largest = kernels::bracket_sides(x, positive, negative);
  if (sides.largest >= kernels::kInfinity) return sides;
  sides.known = finish(sides.positive, positive, k, scratch.magnitudes) &&
                finish(sides.negative, negative, k, scratch.magnitudes);
  return sides;
}

}  // namespace laconic
