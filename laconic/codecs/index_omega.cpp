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
  constexpr std::size_t kRun = 32;
  BitWriter bits(out);
  std::uint32_t next = 0;
  for (std::size_t j = 0; j < positions.size(); ++j) {
    // A neighbour is a bit of 0.
    while (j + kRun <= positions.size() && all_from(positions.subspan(j), next, kRun)) {
      bits.put(0, kRun);
      next += kRun;
      j += kRun;
    }
    if (j == positions.size()) break;
    put_omega(positions[j] - next + 1, bits);
    next = positions[j] + 1;
  }
  bits.finish();
}

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  constexpr unsigned kRun = 16;
  BitReader bits(bytes);
  std::uint64_t next = 0;
  for (std::size_t j = 0; j < positions.size();) {
    const auto run = static_cast<unsigned>(std::countr_zero(bits.peek() | 1ULL << 56));
    if (run >= kRun && bits.bits_left() >= run) {  // neighbours, a bit of 0 each
      const std::size_t number = std::min<std::size_t>(run, positions.size() - j);
      if (next + number > space.count) refuse_beyond(space.count, space.count);
      for (std::size_t i = 0; i < number; ++i)
        positions[j + i] = static_cast<std::uint32_t>(next + i);
      bits.skip(static_cast<unsigned>(number));
      next += number;
      j += number;
      continue;
    }
    next += get_omega(bits) - 1;
    if (next >= space.count) refuse_beyond(next, space.count);
    positions[j++] = static_cast<std::uint32_t>(next++);
  }
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
