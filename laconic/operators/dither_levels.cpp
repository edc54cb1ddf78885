// Levels as symbols in contexts and bits.
#include "laconic/operators/dither_levels.h"

#include <bit>

#include "laconic/codecs/bits.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/dither_apart.h"
#include "laconic/operators/dither_model.h"

namespace laconic {
namespace {

using kernels::DitherScales;
using kernels::kDitherBins;

constexpr std::size_t kPart = 1 << 19;  // entries that are coded together
constexpr std::size_t kCells = 64;      // of a class: bins and symbols
constexpr std::size_t kCodes = kernels::kDitherClasses * kCells;
constexpr std::size_t kMostVarint = 10;
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

// What a symbol does not say of its level.
void put_apart(std::int32_t level, std::int32_t least, unsigned low, BitWriter& bits) {
  const std::int64_t most = least + kContextSymbols - 2;
  const std::int64_t moved = std::int64_t{level} + (low > 0 ? 1 << (low - 1) : 0);
  const std::int64_t high = moved >> low;
  if (high > most || high < least) {
    const auto number = static_cast<std::uint64_t>(high > most ? 2 * (high - most - 1)
                                                               : 2 * (least - 1 - high) + 1) +
                        1;
    const auto digits = static_cast<unsigned>(std::bit_width(number));
    bits.put(1ULL << (digits - 1), digits);
    bits.put(number & ((1ULL << (digits - 1)) - 1), digits - 1);
  }
  bits.put(static_cast<std::uint64_t>(moved) & ((1ULL << low) - 1), low);
}

std::int32_t get_apart(std::int32_t symbol, std::int32_t least, unsigned low, BitReader& bits) {
  std::int64_t high = symbol + least;
  if (symbol == kContextSymbols - 1) {
    const auto zeros = static_cast<unsigned>(std::countr_zero(bits.peek() | 1ULL << 40));
    if (zeros > 32) throw DataError("a section in contexts has a level beyond 2^30");
    bits.skip(zeros + 1);
    const auto number = static_cast<std::int64_t>(bits.get(zeros) | 1ULL << zeros) - 1;
    high = number % 2 == 0 ? high + number / 2 : least - 1 - number / 2;
  }
  const std::int64_t level =
      (high << low) + static_cast<std::int64_t>(bits.get(low)) - (low > 0 ? 1 << (low - 1) : 0);
  if (level > kMostLevel || level < -kMostLevel)
    throw DataError("a section in contexts has a level beyond 2^30");
  return static_cast<std::int32_t>(level);
}

// What quantising leaves beside the levels: symbols in their contexts, which of them do not say
// all, and how often each occurs.
struct Quantised {
  std::span<std::uint16_t> symbols;
  std::span<std::uint64_t> apart;  // bits
  std::span<std::uint32_t> counts;
};

Quantised quantise(std::span<const float> x, const PlaneSpans& planes, StageScratch& scratch) {
  const DitherSection section(views(planes), x.size());
  const DitherKnown& known = section.known();
  const kernels::LevelSpan levels = levels_of(planes);
  const Quantised result{scratch.symbols.reset(x.size()), scratch.words.reset(groups_of(x.size())),
                         scratch.magnitudes.reset(2 * scratch.pool.threads() * kCodes)};
  result.apart.back() = 0;
  std::ranges::fill(result.counts, 0U);
  auto* const apart = reinterpret_cast<std::uint8_t*>(result.apart.data());
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
      kernels::find_apart(symbols, apart + begin / 8);
      // Neighbours are often the same: two tables need not wait for each other.
      std::uint32_t *even = result.counts.data() + 2 * thread * kCodes, *odd = even + kCodes;
      std::size_t i = 0;
      for (; i + 2 <= symbols.size(); i += 2) ++even[symbols[i]], ++odd[symbols[i + 1]];
      if (i < symbols.size()) ++even[symbols[i]];
    }
  });
  for (std::size_t i = kCodes; i < result.counts.size(); ++i)
    result.counts[i % kCodes] += result.counts[i];
  return result;
}

void write_apart(const Quantised& quantised, kernels::LevelView levels, std::int32_t least,
                 Buffer& out) {
  BitWriter bits(out);
  each_bit(quantised.apart, [&](std::size_t i) {
    put_apart(levels[i], least, kernels::dither_low(quantised.symbols[i] / kCells), bits);
  });
  bits.finish();
}

// Parts are coded by all threads, and written in order.
void write_symbols(std::span<const std::uint16_t> symbols, const ContextEncoder& encoder,
                   Buffer& out, StageScratch& scratch) {
  constexpr unsigned kMostAtOnce = 64;
  std::array<ByteView, kMostAtOnce> coded;
  const std::size_t parts = parts_of(symbols.size());
  const std::size_t wave = std::min(scratch.pool.threads(), kMostAtOnce);
  const std::size_t room = ContextEncoder::room(std::min(symbols.size(), kPart));
  const auto staging = scratch.spare.reset(wave * room);
  for (std::size_t first = 0; first < parts; first += wave) {
    const std::size_t some = std::min(wave, parts - first);
    scratch.pool.each(some, [&](std::size_t i, unsigned) {
      const auto rest = symbols.subspan((first + i) * kPart);
      coded[i] =
          encoder.encode(rest.first(std::min(kPart, rest.size())), staging.subspan(i * room, room));
    });
    for (std::size_t i = 0; i < some; ++i) {
      put_varint(coded[i].size(), out);
      out.append(coded[i]);
    }
  }
}

// Symbols of one part as levels, and where they do not say all.
void read_part(const DitherSection& section, std::size_t begin, std::size_t end, ByteView coded,
               std::span<const ContextShares, 256> shares, std::int8_t* levels,
               std::uint8_t* apart) {
  const DitherKnown& known = section.known();
  ContextReader reader(coded, end - begin);
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
    kernels::to_levels_apart({symbols, size}, contexts, section.least(), levels + at,
                             apart + at / 8);
  }
  reader.expect_end();
}

void read_apart(ByteView bytes, std::span<const std::uint64_t> apart, const DitherSection& section,
                const kernels::LevelSpan& levels) {
  const kernels::DitherSteps& steps = section.known().steps;
  BitReader bits(bytes);
  each_bit(apart, [&](std::size_t i) {
    const std::int32_t symbol = levels.small[i] - section.least();
    const std::uint32_t cls = steps.code[section.scale_of(i)] / kDitherBins;
    levels.set(i, get_apart(symbol, section.least(), kernels::dither_low(cls), bits));
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
  constexpr std::size_t kMostApart = (2 * 33 + 8) / 8 + 1;  // bytes of one level
  return kernels::kDitherClasses + parts_of(count) * (ContextEncoder::room(0) + kMostVarint) +
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
  write_symbols(quantised.symbols, encoder, out, scratch);
  write_apart(quantised, levels_of(planes), section.least(), out);
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
  const std::size_t parts = parts_of(count), groups = groups_of(count);
  const auto words = scratch.words.reset(groups + 2 * parts);
  const auto apart = words.first(groups), ends = words.subspan(groups);  // of parts in the bytes
  apart.back() = 0;
  ByteReader rest(section);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::uint64_t size = rest.varint("the length of a part's symbols");
    ends[2 * part] = section.size() - rest.left();
    rest.take(size, "a part's symbols");
    ends[2 * part + 1] = section.size() - rest.left();
  }
  const kernels::LevelSpan levels = levels_of(planes);
  scratch.pool.each(parts, [&](std::size_t part, unsigned) {
    const auto begin = static_cast<std::size_t>(ends[2 * part]);
    const auto size = static_cast<std::size_t>(ends[2 * part + 1]) - begin;
    read_part(known, part * kPart, std::min(count, (part + 1) * kPart),
              section.subspan(begin, size), shares, levels.small,
              reinterpret_cast<std::uint8_t*>(apart.data()));
  });
  read_apart(rest.rest(), apart, known, levels);
}

}  // namespace laconic
