// omega: the gaps between positions as Elias omega codes.
#include <array>

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

// Codes of up to so many bits, by what the stream goes on with: the number, and its code's length;
// 0 where that is longer.
constexpr unsigned kShort = 12;
struct Short {
  std::uint8_t number = 0, length = 0;
};
constexpr auto kShorts = [] {
  std::array<Short, 1U << kShort> all{};
  for (std::uint32_t number = 1; omega_length(number) <= kShort; ++number) {
    const omega::Code code = omega::code(number);
    for (std::uint64_t bits = code.bits; bits < all.size(); bits += 1U << code.length)
      all[bits] = {static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(code.length)};
  }
  return all;
}();

// One position after the other, four short codes to a load. Neighbours, longer codes and the last
// few bytes go through the checked reader.
class Reader {
 public:
  Reader(ByteView bytes, std::size_t count) : bytes_(bytes), count_(count) {}

  void read(std::span<std::uint32_t> positions) {
    while (!positions.empty()) {
      positions = positions.subspan(read_short(positions));
      if (!positions.empty()) positions = positions.subspan(read_some(positions));
    }
  }

  ByteView rest() const { return from_here().rest(); }

 private:
  static constexpr unsigned kRun = 16;  // neighbours that are worth it

  std::size_t read_short(std::span<std::uint32_t> positions) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    constexpr std::uint64_t kMask = kShorts.size() - 1;
    const std::uint64_t last = bytes_.size() < kWord ? 0 : 8ULL * (bytes_.size() - kWord) + 8;
    const std::uint8_t* const bytes = bytes_.data();
    std::uint64_t at = at_, above = next_;
    std::size_t j = 0;
    for (; j + 4 <= positions.size() && at < last; j += 4) {
      const std::uint64_t word = load<std::uint64_t>(bytes + at / 8) >> at % 8;
      const Short a = kShorts[word & kMask];
      unsigned used = a.length;
      const Short b = kShorts[word >> used & kMask];
      used += b.length;
      const Short c = kShorts[word >> used & kMask];
      used += c.length;
      const Short d = kShorts[word >> used & kMask];
      used += d.length;
      const std::uint64_t p = above + a.number, q = p + b.number, r = q + c.number;
      const std::uint64_t s = r + d.number;
      const bool all_short = a.length * b.length * c.length * d.length != 0;
      if (!all_short || s > count_ || (word & ((1U << kRun) - 1)) == 0) break;
      positions[j] = static_cast<std::uint32_t>(p - 1);
      positions[j + 1] = static_cast<std::uint32_t>(q - 1);
      positions[j + 2] = static_cast<std::uint32_t>(r - 1);
      positions[j + 3] = static_cast<std::uint32_t>(s - 1);
      above = s;
      at += used;
    }
    at_ = at;
    next_ = above;
    return j;
  }

  // One position, or neighbours, which are a bit of 0 each.
  std::size_t read_some(std::span<std::uint32_t> positions) {
    BitReader bits = from_here();
    const auto run = static_cast<unsigned>(std::countr_zero(bits.peek() | 1ULL << 56));
    std::size_t number = 1;
    if (run >= kRun && bits.bits_left() >= run) {
      number = std::min<std::size_t>(run, positions.size());
      if (next_ + number > count_) refuse_beyond(count_, count_);
      for (std::size_t i = 0; i < number; ++i) positions[i] = static_cast<std::uint32_t>(next_ + i);
      bits.skip(static_cast<unsigned>(number));
      next_ += number;
    } else {
      next_ += get_omega(bits) - 1;
      if (next_ >= count_) refuse_beyond(next_, count_);
      positions[0] = static_cast<std::uint32_t>(next_++);
    }
    at_ = bytes_.size() * 8ULL - bits.bits_left();
    return number;
  }

  BitReader from_here() const {
    BitReader bits(bytes_.subspan(static_cast<std::size_t>(at_ / 8)));
    bits.get(at_ % 8);
    return bits;
  }

  ByteView bytes_;
  std::size_t count_;
  std::uint64_t at_ = 0, next_ = 0;  // bits read, and one above the last position
};

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  Reader reader(bytes, space.count);
  reader.read(positions);
  return reader.rest();
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
