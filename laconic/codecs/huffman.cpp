// Making Huffman codes, and writing by them: five symbols at a time go into a word.
#include "laconic/codecs/huffman.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "laconic/codecs/huffman_parts.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/bit_codes.h"

namespace laconic {
namespace {

using namespace huffman;

using Counts = std::array<std::uint32_t, kSymbols>;

// A symbol and how often it occurs, the count above: as numbers they ascend by count, then by
// symbol.
using Weighed = std::uint64_t;
constexpr Weighed weighed(std::uint32_t count, std::size_t symbol) {
  return std::uint64_t{count} << 8 | symbol;
}

// Sorts what ascends by symbol: a byte of the counts after the other, as few as they have.
void sort_by_count(std::span<Weighed> some) {
  constexpr std::size_t kFew = 20;
  if (some.size() <= kFew) {
    for (std::size_t i = 1; i < some.size(); ++i) {
      const Weighed next = some[i];
      std::size_t at = i;
      for (; at > 0 && some[at - 1] > next; --at) some[at] = some[at - 1];
      some[at] = next;
    }
    return;
  }
  Weighed all = 0, memory[kSymbols];
  for (const Weighed one : some) all |= one;
  std::span<Weighed> from = some, to(memory, some.size());
  for (unsigned shift = 8; all >> shift != 0; shift += 8) {
    std::uint16_t next[256] = {};
    for (const Weighed one : from) ++next[one >> shift & 255];
    std::uint16_t sum = 0;
    for (std::uint16_t& number : next)
      number = static_cast<std::uint16_t>(std::exchange(sum, sum + number));
    for (const Weighed one : from) to[next[one >> shift & 255]++] = one;
    std::swap(from, to);
  }
  if (from.data() != some.data()) std::ranges::copy(from, some.begin());
}

// How many codes have each length, in Huffman's tree of these counts, which ascend. Two queues of
// ascending weights: leaves, and nodes as they are made.
Numbers tree_of(std::span<const Weighed> leaves) {
  std::uint64_t weight[kSymbols];
  std::uint16_t parent[2 * kSymbols];
  const std::size_t count = leaves.size();
  std::size_t leaf = 0, node = 0;
  const auto take = [&](std::size_t made, std::size_t owner) {
    const bool is_leaf = leaf < count && (node == made || leaves[leaf] >> 8 <= weight[node]);
    parent[is_leaf ? leaf : count + node] = static_cast<std::uint16_t>(owner);
    return is_leaf ? leaves[leaf++] >> 8 : weight[node++];
  };
  for (std::size_t made = 0; made + 1 < count; ++made) {
    const std::uint64_t first = take(made, count + made);
    weight[made] = first + take(made, count + made);
  }
  std::uint16_t depth[2 * kSymbols];
  Numbers number{};
  depth[2 * count - 2] = 0;
  for (std::size_t i = 2 * count - 2; i-- > 0;) {
    depth[i] = static_cast<std::uint16_t>(depth[parent[i]] + 1);
    if (i < count) ++number[std::min<unsigned>(depth[i], kMostBits)];
  }
  // Codes that were cut to the most bits take too much of the code space: one of them at a time
  // becomes the sibling of the longest shorter one.
  std::uint32_t used = 0;
  for (unsigned bits = 1; bits <= kMostBits; ++bits) used += number[bits] << (kMostBits - bits);
  for (; used > 1U << kMostBits; --used) {
    unsigned bits = kMostBits - 1;
    while (number[bits] == 0) --bits;
    --number[bits];
    number[bits + 1] += 2;
    --number[kMostBits];
  }
  return number;
}

// Counts in four tables, so that neighbours that are equal do not wait for each other.
struct Tally {
  std::uint32_t part[4][kSymbols] = {};

  void add(ByteView bytes) {
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
      const auto word = load<std::uint64_t>(bytes.data() + i);
      for (unsigned j = 0; j < 8; ++j) ++part[j % 4][word >> (8 * j) & 255];
    }
    for (; i < bytes.size(); ++i) ++part[0][bytes[i]];
  }
  void add_to(std::span<std::uint32_t, kSymbols> counts) const {
    for (std::size_t s = 0; s < kSymbols; ++s)
      counts[s] += part[0][s] + part[1][s] + part[2][s] + part[3][s];
  }
};

// Bounds on symbols, on their values and on the lower four bits: cheap to find beside counts.
struct Bounds {
  std::uint8_t low = 255, high = 0, nibble = 0;

  explicit Bounds(ByteView symbols) {
    for (const std::uint8_t symbol : symbols) extend(symbol);
  }
  explicit Bounds(const Counts& counts) {
    for (std::size_t s = 0; s < kSymbols; ++s)
      if (counts[s] > 0) extend(static_cast<std::uint8_t>(s));
  }
  void extend(std::uint8_t symbol) {
    low = std::min(low, symbol);
    high = std::max(high, symbol);
    nibble = std::max<std::uint8_t>(nibble, symbol & 15);
  }
  bool contain(std::size_t symbol) const {
    return symbol >= low && symbol <= high && (symbol & 15) <= nibble;
  }
};

// What codes are made from: how often each symbol occurs or, of many symbols, how often in every
// fourth stretch, and once for each that may occur elsewhere; unless these are so many that their
// codes would be at the expense of others.
Counts counts_of(ByteView symbols) {
  constexpr std::size_t kStretch = 1024, kMostGuessed = 40;
  Counts counts{};
  if (symbols.size() < kHuffmanCounted) {
    count_bytes(symbols, counts);
    return counts;
  }
  const auto count_stretch = [&](std::size_t from, Tally& tally) {
    if (from < symbols.size())
      tally.add(symbols.subspan(from, std::min(kStretch, symbols.size() - from)));
  };
  Tally tally;
  for (std::size_t from = 0; from < symbols.size(); from += 4 * kStretch)
    count_stretch(from, tally);
  tally.add_to(counts);
  const auto missing = [&](const Bounds& bounds) {
    std::size_t number = 0;
    for (std::size_t s = 0; s < kSymbols; ++s) number += counts[s] == 0 && bounds.contain(s);
    return number;
  };
  // Bounds on all symbols contain those on what was counted, so no fewer are missing.
  if (missing(Bounds(counts)) <= kMostGuessed) {
    if (std::ranges::find(counts, 0U) == counts.end()) return counts;
    if (const Bounds bounds(symbols); missing(bounds) <= kMostGuessed) {
      for (std::size_t s = 0; s < kSymbols; ++s)
        if (counts[s] == 0 && bounds.contain(s)) counts[s] = 1;
      return counts;
    }
  }
  Tally others;
  for (std::size_t from = 0; from < symbols.size(); from += 4 * kStretch)
    for (std::size_t part = 1; part < 4; ++part) count_stretch(from + part * kStretch, others);
  others.add_to(counts);
  return counts;
}

// Calls with(symbol) for each symbol that has a code, ascending, and none(number) for those without
// one between two of them.
template <class With, class None>
void for_table(const HuffmanCode& code, With with, None none) {
  for (std::size_t i = 0; i < code.distinct; ++i) {
    const std::size_t symbol = code.symbols[i];
    if (i > 0)
      if (const std::size_t gap = symbol - code.symbols[i - 1] - 1; gap > 0) none(gap);
    with(symbol);
  }
}

std::uint8_t* end_of(const kernels::BitStream& stream) {
  if (stream.used > 0) *stream.to = static_cast<std::uint8_t>(stream.word);
  return stream.to + (stream.used > 0);
}

// The two ends of what occurs, and the table of lengths between them.
std::uint8_t* put_table(const HuffmanCode& code, std::uint8_t* to) {
  *to++ = code.symbols[0];
  *to++ = code.symbols[code.distinct - 1];
  kernels::BitStream table{to};
  for_table(
      code, [&](std::size_t symbol) { table.put(code.lengths[symbol], 4); },
      [&](std::size_t gap) {
        for (; gap > 16; gap -= 16) table.put(15 << 4, 8);
        table.put((gap - 1) << 4, 8);
      });
  return end_of(table);
}

std::size_t table_size(const HuffmanCode& code) {
  std::size_t halves = code.distinct;
  for_table(
      code, [](std::size_t) {}, [&](std::size_t gap) { halves += (gap + 15) / 16 * 2; });
  return 2 + (halves + 1) / 2;
}

kernels::BitCodes bit_codes_of(const HuffmanCode& code) {
  Numbers of_length{};
  for (std::size_t i = 0; i < code.distinct; ++i) ++of_length[code.lengths[code.symbols[i]]];
  Numbers next = first_codes(of_length);
  kernels::BitCodes words{};
  for (std::size_t i = 0; i < code.distinct; ++i) {
    const std::size_t symbol = code.symbols[i];
    const unsigned length = code.lengths[symbol];
    words[symbol] = static_cast<std::uint16_t>(reversed(next[length]++, length) << 4 | length);
  }
  return words;
}

// Two streams side by side. `first` has as many symbols, or more. Returns their ends.
std::array<std::uint8_t*, 2> put_streams(ByteView first, ByteView second,
                                         const kernels::BitCodes& codes, std::uint8_t* to_first,
                                         std::uint8_t* to_second) {
  kernels::BitStream a{to_first}, b{to_second};
  kernels::put_codes(first.data(), second.data(), second.size(), codes, a, b);
  for (const std::uint8_t symbol : first.subspan(second.size()))
    a.put(codes[symbol] >> 4, codes[symbol] & 15U);
  return {end_of(a), end_of(b)};
}

constexpr std::size_t kLengths = 3 * 3;  // of three streams, at most, below 2 MiB

// A bound on the bits of any code for symbols that occur so often: their entropy, or a little less.
std::uint64_t least_bits(const Counts& counts, std::uint64_t counted) {
  std::uint64_t known = 0;
  for (const std::uint32_t count : counts)
    if (count > 0) known += count * (about_log2(count) + kLogAbove);
  const std::uint64_t all = about_log2(static_cast<std::uint32_t>(counted)) - kLogBelow;
  return (std::max(counted * all, known) - known) >> 16;
}

// The size of the coded form: codes of `counted` symbols take these bits, others as many each.
double size_with(std::size_t table, std::uint64_t bits, std::uint64_t counted, std::size_t count) {
  const double all =
      static_cast<double>(bits) * (static_cast<double>(count) / static_cast<double>(counted));
  return static_cast<double>(table + kLengths + kStreams) + all / 8;
}

// Whether no code makes symbols that occur so often shorter: found without making one. Planes of
// signs are like that.
bool surely_larger(const Counts& counts, std::size_t count) {
  constexpr std::size_t kMany = 32;  // different symbols: fewer usually have a code
  std::uint64_t counted = 0;
  std::size_t distinct = 0;
  for (const std::uint32_t number : counts) {
    counted += number;
    distinct += number > 0;
  }
  return distinct > kMany && size_with(2 + distinct / 2, least_bits(counts, counted), counted,
                                       count) >= static_cast<double>(count);
}

}  // namespace

void count_bytes(ByteView bytes, std::span<std::uint32_t, 256> counts) {
  Tally tally;
  tally.add(bytes);
  tally.add_to(counts);
}

HuffmanCode huffman_code(std::span<const std::uint32_t, 256> counts) {
  HuffmanCode code;
  Weighed some[kSymbols + 1];
  std::size_t distinct = 0;
  std::uint64_t counted = 0;
  constexpr std::size_t kAtOnce = 4;
  for (std::size_t from = 0; from < kSymbols; from += kAtOnce) {
    if ((counts[from] | counts[from + 1] | counts[from + 2] | counts[from + 3]) == 0) continue;
    for (std::size_t s = from; s < from + kAtOnce; ++s) {
      some[distinct] = weighed(counts[s], s);
      distinct += counts[s] > 0;
      counted += counts[s];
    }
  }
  for (std::size_t i = 0; i < distinct; ++i) code.symbols[i] = static_cast<std::uint8_t>(some[i]);
  code.distinct = distinct;
  code.counted = counted;
  code.size = 3;
  if (distinct < 2) return code;
  sort_by_count({some, distinct});
  const Numbers of_length = tree_of({some, distinct});
  std::size_t at = 0;
  for (unsigned bits = kMostBits; bits > 0; --bits)
    for (std::uint32_t i = 0; i < of_length[bits]; ++i, ++at) {
      code.lengths[some[at] & 255] = static_cast<std::uint8_t>(bits);
      code.bits += (some[at] >> 8) * bits;
    }
  code.size = table_size(code) + 8 + code.bits / 8;
  return code;
}

std::size_t huffman_encode(ByteView symbols, std::uint8_t* to, const HuffmanCode* known) {
  if (symbols.size() < 4) return 0;
  HuffmanCode made;
  if (!known || symbols.size() >= kHuffmanCounted) {
    const Counts counts = counts_of(symbols);
    if (surely_larger(counts, symbols.size())) return 0;
    known = &(made = huffman_code(counts));
  }
  const HuffmanCode& code = *known;
  if (code.distinct == 1) {
    to[0] = to[1] = symbols[0];
    return 2;
  }
  if (size_with(table_size(code), code.bits, code.counted, symbols.size()) >=
      static_cast<double>(symbols.size()))
    return 0;
  std::uint8_t* at = put_table(code, to);
  const kernels::BitCodes codes = bit_codes_of(code);
  // Streams are written apart, and moved together when their lengths are known.
  const std::size_t apart = per_stream(symbols.size()) * kMostBits / 8 + 16;
  std::uint8_t *starts[kStreams], *ends[kStreams];
  for (std::size_t k = 0; k < kStreams; ++k) starts[k] = at + kLengths + k * apart;
  for (std::size_t k = 0; k < kStreams; k += 2) {
    const auto both =
        put_streams(part_of(symbols, k), part_of(symbols, k + 1), codes, starts[k], starts[k + 1]);
    std::ranges::copy(both, ends + k);
  }
  for (std::size_t k = 0; k + 1 < kStreams; ++k)
    at = store_varint(static_cast<std::uint64_t>(ends[k] - starts[k]), at);
  for (std::size_t k = 0; k < kStreams; ++k) {
    const auto size = static_cast<std::size_t>(ends[k] - starts[k]);
    std::memmove(at, starts[k], size);
    at += size;
  }
  const auto size = static_cast<std::size_t>(at - to);
  return size < symbols.size() ? size : 0;
}

}  // namespace laconic
