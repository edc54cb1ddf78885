// rice: the gaps between positions as Rice codes, the parameter derived from kept and count.
#include <algorithm>

#include "laconic/codecs/marks.h"
#include "laconic/codecs/positions.h"
#include "laconic/codecs/rice.h"
#include "laconic/kernels/gaps.h"

namespace laconic {
namespace {

Rice code_for(std::size_t kept, const IndexSpace& space) {
  return {rice_bits(kept, space.count), static_cast<std::uint32_t>(space.count - 1)};
}

// Without an escape, a bit and the low bits for each, and all ones.
std::size_t size(std::span<const std::uint32_t> positions, const IndexSpace& space) {
  const unsigned bits = rice_bits(positions.size(), space.count);
  const kernels::GapSum gaps = kernels::sum_of_gaps(positions, bits);
  if (gaps.largest >> bits < Rice::kEscape)
    return (positions.size() * (1ULL + bits) + gaps.sum + 7) / 8;
  const Rice code = code_for(positions.size(), space);
  return (sum_over_gaps(positions, [&](std::uint32_t gap) { return code.length(gap); }) + 7) / 8;
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

// Joins codes, and stores a word where the stream ends: everything is in registers, and what the
// next codes wait for is only how many bits these have.
class Writer {
 public:
  explicit Writer(std::uint8_t* to) : to_(to) {}

  void put(Rice::Code code) {
    word_ |= code.bits << used_;
    used_ += code.length;
    store(to_, word_);
    to_ += used_ / 8;
    word_ >>= used_ / 8 * 8;
    used_ %= 8;
  }

  static Rice::Code joined(Rice::Code a, Rice::Code b) {
    return {a.bits | b.bits << (a.length % 64), a.length + b.length};
  }

 private:
  std::uint8_t* to_;
  std::uint64_t word_ = 0;
  unsigned used_ = 0;  // bits of it; below 8 between calls
};

// Without low bits, and without escapes, every entry up to the last kept is a bit: 0 where it is
// kept.
bool write_bits(std::span<const std::uint32_t> positions, Buffer& out) {
  if (kernels::sum_of_gaps(positions, 0).largest >= Rice::kEscape) return false;
  put_marks(positions, std::size_t{positions.back()} + 1, false, out);
  return true;
}

// Four codes at a time where they fit a word, which all but escapes usually do.
void write(std::span<const std::uint32_t> positions, const IndexSpace& space, Buffer& out) {
  if (rice_bits(positions.size(), space.count) == 0 && write_bits(positions, out)) return;
  const Rice rice = code_for(positions.size(), space);
  const std::size_t bytes = size(positions, space), start = out.size();
  Writer writer(out.grow(bytes + sizeof(std::uint64_t)));
  std::uint32_t before = ~0U;  // so that the first gap is the first position
  const auto next = [&](std::size_t j) {
    const std::uint32_t gap = positions[j] - before - 1;
    before = positions[j];
    return rice.code(gap);
  };
  std::size_t j = 0;
  for (; j + 4 <= positions.size(); j += 4) {
    const Rice::Code a = next(j), b = next(j + 1), c = next(j + 2), d = next(j + 3);
    const Rice::Code ab = Writer::joined(a, b), cd = Writer::joined(c, d);
    if (ab.length + cd.length <= Rice::kLongest) {
      writer.put(Writer::joined(ab, cd));
    } else if (std::max(ab.length, cd.length) <= Rice::kLongest) {
      writer.put(ab);
      writer.put(cd);
    } else {
      for (const Rice::Code& code : {a, b, c, d}) writer.put(code);
    }
  }
  for (; j < positions.size(); ++j) writer.put(next(j));
  out.truncate(start + bytes);
}

// One position after the other from a stream of bits, four codes to a load: what the next load
// waits for is only where the codes end. Escapes and the last few bytes go through the checked
// reader.
class Reader {
 public:
  Reader(ByteView bytes, const Rice& code, bool plain)
      : bytes_(bytes), code_(code), plain_(plain) {}

  void read(std::size_t count, std::span<std::uint32_t> positions) {
    std::uint64_t next = 0;
    const auto take = [&](std::uint32_t& position, std::uint64_t gap) {
      next += gap;
      if (next >= count) refuse_beyond(next, count);
      position = static_cast<std::uint32_t>(next++);
    };
    std::uint32_t *to = positions.data(), *const end = to + positions.size();
    while (to < end) {
      if (plain_) to += read_bits(count, {to, end}, next);
      to += read_fast(count, {to, end}, next);
      if (to < end) take(*to++, slowly());
    }
  }

  // What follows the byte that the last code ends in, the rest of which must be 0.
  ByteView rest() const { return from_here().rest(); }

 private:
  static constexpr unsigned kSure = 57;  // bits of a word that is loaded from the middle of a byte

  // Positions up to the first code that needs care; `next` is one above the last position.
  std::size_t read_fast(std::size_t count, std::span<std::uint32_t> positions,
                        std::uint64_t& next) {
    const Rice code = code_;
    const std::uint8_t* const bytes = bytes_.data();
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    const std::uint64_t last = bytes_.size() < kWord ? 0 : 8ULL * (bytes_.size() - kWord) + 8;
    std::uint64_t at = at_, above = next;
    std::size_t j = 0;
    while (j + 4 <= positions.size() && at < last) {
      const std::uint64_t word = load<std::uint64_t>(bytes + at / 8) >> at % 8;
      const Rice::Short a = code.peek(word);
      const Rice::Short b = code.peek(word >> a.length % 64);
      const unsigned two = a.length + b.length;
      const Rice::Short c = code.peek(word >> two % 64);
      const Rice::Short d = code.peek(word >> (two + c.length) % 64);
      const unsigned four = two + c.length + d.length;
      const std::uint64_t p = above + a.value, q = p + 1 + b.value, r = q + 1 + c.value;
      const std::uint64_t s = r + 1 + d.value;
      if (s >= count || two > kSure) break;
      positions[j] = static_cast<std::uint32_t>(p);
      positions[j + 1] = static_cast<std::uint32_t>(q);
      positions[j + 2] = static_cast<std::uint32_t>(r);
      positions[j + 3] = static_cast<std::uint32_t>(s);
      const bool all = four <= kSure;
      above = (all ? s : q) + 1;
      at += all ? four : two;
      j += all ? 4 : 2;
    }
    at_ = at;
    next = above;
    return j;
  }

  // The same for codes without low bits, up to an escape: every bit is an entry, 0 if it was kept.
  std::size_t read_bits(std::size_t count, std::span<std::uint32_t> positions,
                        std::uint64_t& next) {
    constexpr std::size_t kSpare = 4;  // numbers that are written without asking
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    const std::uint64_t last = bytes_.size() < kWord ? 0 : 8ULL * (bytes_.size() - kWord) + 8;
    std::size_t j = 0;
    while (at_ < last) {
      const std::uint64_t ones = load<std::uint64_t>(bytes_.data() + at_ / 8) >> at_ % 8;
      const std::uint64_t zeros = ~ones & ((1ULL << (kSure - 1)) - 1);
      const auto used = static_cast<unsigned>(std::bit_width(zeros));  // up to the last 0
      const auto number = static_cast<std::size_t>(std::popcount(zeros));
      std::uint64_t runs = ones & ((1ULL << used) - 1);
      for (const unsigned length : {1, 2, 4, 8, 8}) runs &= runs >> length;  // of 24 ones
      if (zeros == 0 || runs != 0 || j + number + kSpare > positions.size() || next + used > count)
        break;
      std::uint32_t* to = positions.data() + j;
      if (number == used)
        for (unsigned i = 0; i < used; ++i) to[i] = static_cast<std::uint32_t>(next) + i;
      for (std::uint64_t rest = number == used ? 0 : zeros; rest != 0; to += kSpare)
        for (std::size_t i = 0; i < kSpare; ++i) {
          // The top bit is never set, and spares the question whether any is.
          to[i] = static_cast<std::uint32_t>(next) +
                  static_cast<std::uint32_t>(std::countr_zero(rest | 1ULL << 63));
          rest &= rest - 1;
        }
      j += number;
      next += used;
      at_ += used;
    }
    return j;
  }

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
  bool plain_;            // without low bits
  std::uint64_t at_ = 0;  // bits read
};

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  Reader reader(bytes, code_for(positions.size(), space),
                rice_bits(positions.size(), space.count) == 0);
  reader.read(space.count, positions);
  return reader.rest();
}

std::optional<ByteView> read_marks(ByteView bytes, const IndexSpace& space, std::size_t kept,
                                   std::uint64_t* marks) {
  const unsigned bits = rice_bits(kept, space.count);
  if (bits > 1) return {};
  return marks_of_rice(bytes, bits, space.count, kept, marks);
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
    .read_marks = read_marks,
}};

}  // namespace
}  // namespace laconic
