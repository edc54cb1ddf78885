// rice: the gaps between positions as Rice codes, the parameter derived from kept and count.
#include <algorithm>

#include "laconic/codecs/positions.h"
#include "laconic/codecs/rice.h"

namespace laconic {
namespace {

Rice code_for(std::size_t kept, const IndexSpace& space) {
  return {rice_bits(kept, space.count), static_cast<std::uint32_t>(space.count - 1)};
}

std::size_t size(std::span<const std::uint32_t> positions, const IndexSpace& space) {
  const Rice code = code_for(positions.size(), space);
  std::uint64_t bits = 0;
  for_gaps(positions, [&](std::uint32_t gap) { bits += code.length(gap); });
  return (bits + 7) / 8;
}

// The entries left out allow for `runs` ones in all. An escape takes the place of 24 of them and
// costs `wide` bits: as many of those as can be, and plain ones with what is left. Where the escape
// is no longer than 23 ones, plain ones are the worst.
std::size_t largest_of(std::size_t kept, const IndexSpace& space) {
  const unsigned bits = rice_bits(kept, space.count);
  const unsigned wide = std::max(1U, width_below(space.count));
  const std::uint64_t runs = (space.count - kept) >> bits;
  const std::uint64_t escapes =
      wide > bits ? std::min<std::uint64_t>(kept, runs / Rice::kEscape) : 0;
  const std::uint64_t plain = kept - escapes;
  const std::uint64_t ones = std::min(runs - escapes * Rice::kEscape, plain * (Rice::kEscape - 1));
  return (escapes * (Rice::kEscape + wide) + plain * (1 + bits) + ones + 7) / 8;
}

// With no low bits, fewer positions leave room for longer gaps: the fewest that have none count
// too.
std::size_t max_size(std::size_t kept, const IndexSpace& space) {
  std::size_t low = 0, fewest = kept;
  while (low < fewest) {
    const std::size_t middle = low + (fewest - low) / 2;
    if (middle > 0 && rice_bits(middle, space.count) == 0)
      fewest = middle;
    else
      low = middle + 1;
  }
  return std::max(largest_of(kept, space), largest_of(fewest, space));
}

void write(std::span<const std::uint32_t> positions, const IndexSpace& space, Buffer& out) {
  const Rice code = code_for(positions.size(), space);
  BitWriter bits(out);
  for_gaps(positions, [&](std::uint32_t gap) { code.put(gap, bits); });
  bits.finish();
}

// One position after the other from a stream of bits, two codes to a load: what the next load waits
// for is only where the codes end. Escapes and the last few bytes go through the checked reader.
class Reader {
 public:
  Reader(ByteView bytes, const Rice& code) : bytes_(bytes), code_(code) {}

  void read(std::size_t count, std::span<std::uint32_t> positions) {
    std::uint64_t next = 0;
    const auto take = [&](std::uint32_t& position, std::uint64_t gap) {
      next += gap;
      if (next >= count) refuse_beyond(next, count);
      position = static_cast<std::uint32_t>(next++);
    };
    std::uint32_t *to = positions.data(), *const end = to + positions.size();
    while (to < end) {
      if (at_ / 8 + sizeof(std::uint64_t) > bytes_.size()) {
        take(*to++, slowly());
        continue;
      }
      const std::uint64_t word = load<std::uint64_t>(bytes_.data() + at_ / 8) >> at_ % 8;
      const Rice::Short first = code_.peek(word);
      if (first.length > kSure) {
        take(*to++, slowly());
        continue;
      }
      take(*to++, first.value);
      at_ += first.length;
      const Rice::Short second = code_.peek(word >> first.length);
      if (to == end || first.length + second.length > kSure) continue;
      take(*to++, second.value);
      at_ += second.length;
    }
  }

  // What follows the byte that the last code ends in, the rest of which must be 0.
  ByteView rest() const { return from_here().rest(); }

 private:
  static constexpr unsigned kSure = 57;  // bits of a word that is loaded from the middle of a byte

  BitReader from_here() const {
    BitReader bits(bytes_.subspan(static_cast<std::size_t>(at_ / 8)));
    bits.get(at_ % 8);
    return bits;
  }

  std::uint64_t slowly() {
    BitReader bits = from_here();
    const std::uint32_t gap = code_.get(bits);
    at_ = bytes_.size() * 8ULL - bits.bits_left();
    return gap;
  }

  ByteView bytes_;
  Rice code_;
  std::uint64_t at_ = 0;  // bits read
};

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  Reader reader(bytes, code_for(positions.size(), space));
  reader.read(space.count, positions);
  return reader.rest();
}

const RegisterIndexCodec rice{{
    .name = "rice",
    .tag = 0,
    .summary = "Gaps as Rice codes: within 0.1 bits of the least for sparse positions at random.",
    .paper = "Sattler et al. (arXiv 1805.08768)",
    .bits =
        "k (b + 1/(1 - (1-p)^2^b)) on average; p = k/n, b = 1 + floor(log2(ln 0.618 / ln(1-p)))",
    .size = size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic
