// Levels as symbols in contexts and bits.
#include "laconic/operators/dither_levels.h"

#include <bit>

#include "laconic/codecs/bits.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/dither_escapes.h"
#include "laconic/kernels/low_bits.h"
#include "laconic/operators/dither_model.h"

namespace laconic {
namespace {

using kernels::DitherScales;
using kernels::kDitherBins;

constexpr std::size_t kPart = 1 << 19;  // entries that are coded together
constexpr std::size_t kCells = 64;      // of a class: bins and symbols
constexpr std::size_t kCodes = kernels::kDitherClasses * kCells;
constexpr std::size_t kMostVarint = 10;
constexpr std::size_t kManyCounted = 1 << 18;  // entries from which on some are not counted
constexpr std::int64_t kMostLevel = 1 << 30;

// Shares of entries that are not sent: all for level 0.
ContextShares nothing(std::int32_t least) {
  ContextShares shares;
  for (std::int32_t i = 0; i < std::ssize(shares.begin); ++i)
    shares.begin[i] = i <= -least ? 0 : kShares;
  return shares;
}

// Those of a class, bin by bin; a grid has one bin.
DitherShares shares_of(const DitherKnown& known, std::size_t cls, std::uint8_t law) {
  if (known.dithered) return dither_shares(cls, law);
  DitherShares shares;
  shares.fill(grid_shares(cls, law));
  return shares;
}

constexpr std::size_t parts_of(std::size_t count) { return (count + kPart - 1) / kPart; }
constexpr std::size_t groups_of(std::size_t count) { return (count + 63) / 64; }

kernels::LevelSpan levels_of(const PlaneSpans& planes) {
  return {reinterpret_cast<std::int8_t*>(planes[2].data()),
          reinterpret_cast<std::int32_t*>(planes[3].data())};
}

// Calls use(i) for every bit i of the words, in order.
template <class Use>
void each_bit(std::span<const std::uint64_t> words, Use use) {
  for (std::size_t w = 0; w < words.size(); ++w)
    for (std::uint64_t word = words[w]; word != 0; word &= word - 1)
      use(w * 64 + static_cast<std::size_t>(std::countr_zero(word)));
}

// What is above the lowest bits of a level: what a symbol says where it can.
std::int64_t high_part(std::int32_t level, unsigned low) {
  return (std::int64_t{level} + (low > 0 ? 1 << (low - 1) : 0)) >> low;
}

void put_escape(std::int64_t high, std::int32_t least, BitWriter& bits) {
  const std::int64_t most = least + kContextSymbols - 2;
  const auto number =
      static_cast<std::uint64_t>(high > most ? 2 * (high - most - 1) : 2 * (least - 1 - high) + 1) +
      1;
  const auto digits = static_cast<unsigned>(std::bit_width(number));
  const std::uint64_t below = number - (1ULL << (digits - 1));
  if (digits <= 28) return bits.put(1ULL << (digits - 1) | below << digits, 2 * digits - 1);
  bits.put(1ULL << (digits - 1), digits);
  bits.put(below, digits - 1);
}

std::int64_t get_escape(std::int32_t least, BitReader& bits) {
  const std::uint64_t next = bits.peek();
  const auto zeros = static_cast<unsigned>(std::countr_zero(next | 1ULL << 40));
  if (zeros > 32) throw DataError("a section in contexts has a level beyond 2^30");
  const std::uint64_t one = 1ULL << zeros;
  std::int64_t number = 0;
  if (zeros <= 27) {  // all in one
    number = static_cast<std::int64_t>((next >> (zeros + 1) & (one - 1)) | one) - 1;
    bits.skip(2 * zeros + 1);
  } else {
    bits.skip(zeros + 1);
    number = static_cast<std::int64_t>(bits.get(zeros) | one) - 1;
  }
  return number % 2 == 0 ? least + kContextSymbols - 1 + number / 2 : least - 1 - number / 2;
}

// Whether levels of one of these classes have lowest bits that go apart.
bool have_low_bits(std::uint32_t classes) { return classes >> 16 != 0; }

// What quantising leaves beside the levels: symbols in their contexts, which of them are escapes,
// and how often each occurs.
struct Quantised {
  std::span<std::uint16_t> symbols;
  std::span<std::uint64_t> escapes;  // bits
  std::span<std::uint32_t> counts;
};

// Of many entries a quarter tell the law as well as all: sixteen of each 64, now these, now those.
void count_symbols(std::span<const std::uint16_t> symbols, std::size_t from, bool many,
                   std::uint32_t* counts) {
  // Neighbours are often the same: two tables need not wait for each other.
  std::uint32_t *even = counts, *odd = counts + kCodes;
  const auto count = [&](std::span<const std::uint16_t> some) {
    std::size_t i = 0;
    for (; i + 2 <= some.size(); i += 2) ++even[some[i]], ++odd[some[i + 1]];
    if (i < some.size()) ++even[some[i]];
  };
  if (!many) return count(symbols);
  for (std::size_t i = 0; i + 64 <= symbols.size(); i += 64) {
    const auto group = static_cast<std::uint32_t>((from + i) / 64);
    count(symbols.subspan(i + (group * 0x9e3779b1U >> 30) * 16, 16));
  }
}

Quantised quantise(std::span<const float> x, const PlaneSpans& planes, StageScratch& scratch) {
  const DitherSection section(views(planes), x.size());
  const DitherKnown& known = section.known();
  const kernels::LevelSpan levels = levels_of(planes);
  const Quantised result{scratch.symbols.reset(x.size()), scratch.words.reset(groups_of(x.size())),
                         scratch.magnitudes.reset(2 * scratch.pool.threads() * kCodes)};
  result.escapes.back() = 0;
  std::ranges::fill(result.counts, 0U);
  auto* const escapes = reinterpret_cast<std::uint8_t*>(result.escapes.data());
  constexpr std::size_t kPiece = 16 * kBlock;  // entries one thread takes at a time
  scratch.pool.each((x.size() + kPiece - 1) / kPiece, [&](std::size_t piece, unsigned thread) {
    const std::size_t end = std::min(x.size(), (piece + 1) * kPiece);
    for (std::size_t begin = piece * kPiece; begin < end; begin += kBlock) {
      const auto symbols = result.symbols.subspan(begin, std::min(kBlock, end - begin));
      section.in_scales(begin, begin + symbols.size(),
                        [&](std::size_t from, std::size_t count, DitherScales scales) {
                          std::uint16_t* to = result.symbols.data() + from;
                          if (known.dithered)
                            kernels::dither(x.subspan(from, count), known.steps, scales, known.own,
                                            known.first + from, levels.from(from), to);
                          else
                            kernels::levels_in_classes(levels.from(from), count, known.steps,
                                                       scales, section.least(), to);
                        });
      kernels::find_escapes(symbols, escapes + begin / 8);
      count_symbols(symbols, begin, x.size() >= kManyCounted,
                    result.counts.data() + 2 * thread * kCodes);
    }
  });
  for (std::size_t i = kCodes; i < result.counts.size(); ++i)
    result.counts[i % kCodes] += result.counts[i];
  return result;
}

void write_escapes(const Quantised& quantised, kernels::LevelView levels, std::int32_t least,
                   Buffer& out) {
  BitWriter bits(out);
  each_bit(quantised.escapes, [&](std::size_t i) {
    const std::uint32_t low = kernels::dither_low(quantised.symbols[i] / kCells);
    put_escape(high_part(levels[i], low), least, bits);
  });
  bits.finish();
}

void put_bytes(ByteView bytes, Buffer& out) {
  put_varint(bytes.size(), out);
  out.append(bytes);
}

// Parts are coded by all threads, and written in order.
void write_symbols(std::span<const std::uint16_t> symbols, kernels::LevelView levels, bool has_low,
                   const ContextEncoder& encoder, Buffer& out, StageScratch& scratch) {
  constexpr unsigned kMostAtOnce = 64;
  std::array<ByteView, kMostAtOnce> coded, low;
  const std::size_t parts = parts_of(symbols.size()), most = std::min(symbols.size(), kPart);
  const std::size_t wave = std::min(scratch.pool.threads(), kMostAtOnce);
  const std::size_t first_room = ContextEncoder::room(most);
  const std::size_t room = first_room + (has_low ? most + kernels::kLowRoom : 0);
  const auto staging = scratch.spare.reset(wave * room);
  for (std::size_t first = 0; first < parts; first += wave) {
    const std::size_t some = std::min(wave, parts - first);
    scratch.pool.each(some, [&](std::size_t i, unsigned) {
      const std::size_t from = (first + i) * kPart;
      const auto mine = symbols.subspan(from, std::min(kPart, symbols.size() - from));
      coded[i] = encoder.encode(mine, staging.subspan(i * room, first_room));
      if (!has_low) return;
      std::uint8_t* const to = staging.data() + i * room + first_room;
      low[i] = {to, kernels::put_low_bits(mine, levels.from(from), to)};
    });
    for (std::size_t i = 0; i < some; ++i) {
      put_bytes(coded[i], out);
      if (has_low) put_bytes(low[i], out);
    }
  }
}

// Symbols of one part, and its lowest bits if there are any.
struct Part {
  ByteView symbols, low;
};

// Levels of one part, but for those beyond their symbols.
void read_part(const DitherSection& section, std::size_t begin, std::size_t end, const Part& part,
               bool has_low, std::span<const ContextShares, 256> shares,
               const kernels::LevelSpan& levels, std::uint8_t* escapes) {
  const DitherKnown& known = section.known();
  ContextReader reader(part.symbols, end - begin);
  kernels::LowBits bits{part.low.data(), part.low.data() + part.low.size()};
  for (std::size_t at = begin; at < end; at += kBlock) {
    std::uint8_t contexts[kBlock], symbols[kBlock];
    const std::size_t size = std::min(kBlock, end - at);
    section.in_scales(at, at + size, [&](std::size_t from, std::size_t count, DitherScales scales) {
      std::uint8_t* to = contexts + (from - at);
      if (known.dithered)
        kernels::dither_contexts(count, known.steps, scales, known.own, known.first + from, to);
      else
        kernels::class_contexts(count, known.steps, scales, to);
    });
    reader.read({contexts, size}, shares, symbols);
    kernels::to_levels_and_escapes({symbols, size}, section.least(), levels.small + at,
                                   escapes + at / 8);
    if (has_low &&
        !kernels::take_low_bits({symbols, size}, contexts, section.least(), bits, levels.from(at)))
      throw DataError("a section in contexts has a level without its lowest bits");
  }
  reader.expect_end();
  if (!bits.at_end())
    throw DataError("the lowest bits of a section in contexts do not end where they should");
}

void read_escapes(ByteView bytes, std::span<const std::uint64_t> escapes,
                  const DitherSection& section, const kernels::LevelSpan& levels) {
  const kernels::DitherSteps& steps = section.known().steps;
  BitReader bits(bytes);
  each_bit(escapes, [&](std::size_t i) {
    const std::uint32_t cls = steps.code[section.scale_of(i)] / kDitherBins;
    const std::uint32_t low = kernels::dither_low(cls);
    std::int64_t level = get_escape(section.least(), bits);
    if (low > 0)
      level = (level << low) + static_cast<std::uint8_t>(levels.small[i]) - (1 << (low - 1));
    if (level > kMostLevel || level < -kMostLevel)
      throw DataError("a section in contexts has a level beyond 2^30");
    levels.set(i, static_cast<std::int32_t>(level));
  });
  bits.expect_end();
}

}  // namespace

std::uint32_t classes_of(const ScaleCounts& entries, const kernels::DitherSteps& steps) {
  std::uint32_t classes = 0;
  for (std::size_t k = 0; k < kNowhere; ++k)
    if (entries[k] > 0 && steps.code[k] > 0) classes |= 1U << steps.code[k] / kDitherBins;
  return classes;
}

std::size_t most_level_bytes(std::size_t count) {
  constexpr std::size_t kMostApart = (2 * 33 + 8) / 8 + 1;  // bytes of one escape and low bits
  return kernels::kDitherClasses + parts_of(count) * (ContextEncoder::room(0) + 2 * kMostVarint) +
         (2 + kMostApart) * count;
}

bool write_zeros(const PlaneSpans& planes, Buffer& out) {
  DitherKnown& known = known_of(planes);
  known.rank = 0;
  known.steps = {};
  std::ranges::fill(planes[1], std::uint8_t{0});
  std::ranges::fill(planes[2], std::uint8_t{0});
  put_varint(0, out);
  return true;
}

void write_levels(std::span<const float> x, const PlaneSpans& planes, std::uint32_t classes,
                  Buffer& out, StageScratch& scratch) {
  const Quantised quantised = quantise(x, planes, scratch);
  const DitherSection section(views(planes), x.size());
  ContextEncoder encoder;
  encoder.set(0, nothing(section.least()));
  for (std::size_t cls = 1; cls < kernels::kDitherClasses; ++cls) {
    if ((classes >> cls & 1) == 0) continue;
    const auto counts = quantised.counts.subspan(cls * kCells).first<kCells>();
    const std::uint8_t law = section.known().dithered
                                 ? fitted_law(cls, counts)
                                 : fitted_grid_law(cls, counts.first<kContextSymbols>());
    out.append_number(law);
    const DitherShares shares = shares_of(section.known(), cls, law);
    for (std::size_t bin = 0; bin < shares.size(); ++bin)
      encoder.set(cls * kDitherBins + bin, shares[bin]);
  }
  write_symbols(quantised.symbols, levels_of(planes), have_low_bits(classes), encoder, out,
                scratch);
  write_escapes(quantised, levels_of(planes), section.least(), out);
}

void read_levels(ByteView section, std::size_t count, const PlaneSpans& planes,
                 std::uint32_t classes, StageScratch& scratch) {
  const DitherSection known(views(planes), count);
  std::array<ContextShares, 256> shares;
  shares.fill(nothing(known.least()));
  for (std::size_t cls = 1; cls < kernels::kDitherClasses; ++cls) {
    if ((classes >> cls & 1) == 0) continue;
    if (section.empty()) throw DataError("a section in contexts ends early");
    const DitherShares mine = shares_of(known.known(), cls, section[0]);
    std::ranges::copy(mine, shares.begin() + static_cast<std::ptrdiff_t>(cls * mine.size()));
    section = section.subspan(1);
  }
  const bool has_low = have_low_bits(classes);
  const std::size_t parts = parts_of(count), groups = groups_of(count);
  const auto words = scratch.words.reset(groups + 4 * parts);
  const auto escapes = words.first(groups), where = words.subspan(groups);
  escapes.back() = 0;
  ByteReader rest(section);
  const auto find = [&](std::uint64_t* place, const char* what) {
    place[1] = rest.varint(what);
    place[0] = section.size() - rest.left();
    rest.take(place[1], what);
  };
  for (std::size_t part = 0; part < parts; ++part) {
    find(&where[4 * part], "a part's symbols");
    where[4 * part + 2] = where[4 * part + 3] = 0;
    if (has_low) find(&where[4 * part + 2], "a part's lowest bits");
  }
  const kernels::LevelSpan levels = levels_of(planes);
  scratch.pool.each(parts, [&](std::size_t part, unsigned) {
    const auto at = [&](std::size_t i) {
      return section.subspan(static_cast<std::size_t>(where[4 * part + i]),
                             static_cast<std::size_t>(where[4 * part + i + 1]));
    };
    read_part(known, part * kPart, std::min(count, (part + 1) * kPart), {at(0), at(2)}, has_low,
              shares, levels, reinterpret_cast<std::uint8_t*>(escapes.data()));
  });
  read_escapes(rest.rest(), escapes, known, levels);
}

}  // namespace laconic
