// omega: the gaps between positions as Elias omega codes.
#include "laconic/codecs/elias.h"
#include "laconic/codecs/positions.h"
#include "laconic/kernels/gaps.h"

namespace laconic {
namespace {

// A code's length depends on the digits of its number. Where gaps are small, those of as many
// digits are counted; else one by one, in four tables that take turns, so that no count waits for
// the one before.
std::size_t size(std::span<const std::uint32_t> positions, const IndexSpace&) {
  constexpr std::size_t kMany = 128;
  std::uint64_t bits = positions.size();
  const kernels::Gaps gaps = kernels::gaps_of(positions);
  if (gaps.largest + 1 < 2U << kernels::Gaps::kDigits) {
    for (unsigned i = 0; i < kernels::Gaps::kDigits; ++i)
      bits += gaps.from[i] * (omega_length(2U << i) - omega_length((2U << i) - 1));
    return (bits + 7) / 8;
  }
  if (positions.size() < kMany) {
    const auto length = [](std::uint32_t gap) { return omega_length(gap + 1); };
    return (sum_over_gaps(positions, length) + 7) / 8;
  }
  std::size_t counts[4][33] = {}, turn = 0;
  for_gaps(positions, [&](std::uint32_t gap) { ++counts[turn++ % 4][std::bit_width(gap + 1)]; });
  bits = 0;
  for (unsigned width = 1; width <= 32; ++width)
    for (const auto& table : counts) bits += table[width] * omega_length(1U << (width - 1));
  return (bits + 7) / 8;
}

// A code longer than those of n - 1 leaves out at least n - 1 entries, so there are only so many.
std::size_t max_size(std::size_t kept, const IndexSpace& space) {
  std::uint64_t bits = kept;
  for (std::uint32_t number = 2; number != 0; number *= 2) {
    const std::uint64_t longer = omega_length(number) - omega_length(number - 1);
    bits += longer * std::min<std::uint64_t>(kept, space.count / (number - 1));
  }
  return (bits + 7) / 8;
}

void write(std::span<const std::uint32_t> positions, const IndexSpace&, Buffer& out) {
  BitWriter bits(out);
  for_gaps(positions, [&](std::uint32_t gap) { put_omega(gap + 1, bits); });
  bits.finish();
}

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  BitReader bits(bytes);
  fill_from_gaps(positions, space.count, [&] { return get_omega(bits) - 1; });
  return bits.rest();
}

const RegisterIndexCodec omega{{
    .name = "omega",
    .tag = 5,
    .summary = "Gaps as Elias omega codes: nothing to choose, good for clustered positions.",
    .paper = "Alistarh et al. (arXiv 1610.02132)",
    .bits = "sum of omega(gap)",
    .size = size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic
