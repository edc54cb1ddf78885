// Huffman codes of bytes. Encoding puts five symbols at a time into a word; decoding looks up 11
// bits at a time, which are up to four symbols, in four streams whose lookups overlap.
#include "laconic/codecs/huffman.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "laconic/base/errors.h"
#include "laconic/codecs/bits.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/bit_codes.h"

namespace laconic {
namespace {

constexpr unsigned kMostBits = 11;
constexpr std::size_t kSymbols = 256, kStreams = 4;

using Counts = std::array<std::uint32_t, kSymbols>;
using Lengths = std::array<std::uint8_t, kSymbols>;

// How many codes have each length, in Huffman's tree of these counts, which ascend. Two queues of
// ascending weights: leaves, and nodes as they are made.
std::array<std::uint32_t, kMostBits + 1> tree_of(std::span<const std::uint32_t> leaves) {
  std::array<std::uint64_t, kSymbols> weight{};
  std::array<std::uint16_t, 2 * kSymbols> parent{};
  const std::size_t count = leaves.size();
  std::size_t leaf = 0, node = 0;
  const auto take = [&](std::size_t made, std::size_t owner) {
    const bool is_leaf = leaf < count && (node == made || leaves[leaf] <= weight[node]);
    parent[is_leaf ? leaf : count + node] = static_cast<std::uint16_t>(owner);
    return is_leaf ? leaves[leaf++] : weight[node++];
  };
  for (std::size_t made = 0; made + 1 < count; ++made) {
    const std::uint64_t first = take(made, count + made);
    weight[made] = first + take(made, count + made);
  }
  std::array<std::uint16_t, 2 * kSymbols> depth{};
  std::array<std::uint32_t, kMostBits + 1> number{};
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

// A code for every symbol that occurs, of which there are at least two.
Lengths lengths_of(const Counts& counts) {
  std::array<std::uint8_t, kSymbols> symbols{};
  std::size_t number = 0;
  for (std::size_t s = 0; s < kSymbols; ++s)
    if (counts[s] > 0) symbols[number++] = static_cast<std::uint8_t>(s);
  const std::span some(symbols.data(), number);
  std::ranges::sort(some, [&](std::uint8_t a, std::uint8_t b) {
    return counts[a] != counts[b] ? counts[a] < counts[b] : a < b;
  });
  std::array<std::uint32_t, kSymbols> leaves{};
  std::ranges::transform(some, leaves.begin(), [&](std::uint8_t s) { return counts[s]; });
  const auto of_length = tree_of({leaves.data(), number});
  Lengths lengths{};
  std::size_t at = 0;
  for (unsigned bits = kMostBits; bits > 0; --bits)
    for (std::uint32_t i = 0; i < of_length[bits]; ++i)
      lengths[symbols[at++]] = static_cast<std::uint8_t>(bits);
  return lengths;
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
    for (const std::uint8_t symbol : symbols) {
      low = std::min(low, symbol);
      high = std::max(high, symbol);
      nibble = std::max<std::uint8_t>(nibble, symbol & 15);
    }
  }
  bool contain(std::size_t symbol) const {
    return symbol >= low && symbol <= high && (symbol & 15) <= nibble;
  }
};

// What codes are made from: how often each symbol occurs or, of many symbols, how often in every
// fourth stretch, and once for each that may occur elsewhere; unless these are so many that their
// codes would be at the expense of others.
Counts counts_of(ByteView symbols) {
  constexpr std::size_t kMany = 131072, kStretch = 1024, kMostGuessed = 40;
  Counts counts{};
  if (symbols.size() < kMany) {
    count_bytes(symbols, counts);
    return counts;
  }
  Tally tally;
  for (std::size_t from = 0; from < symbols.size(); from += 4 * kStretch)
    tally.add(symbols.subspan(from, std::min(kStretch, symbols.size() - from)));
  tally.add_to(counts);
  const Bounds bounds(symbols);
  std::size_t guessed = 0;
  for (std::size_t s = 0; s < kSymbols; ++s)
    if (counts[s] == 0 && bounds.contain(s)) counts[s] = 1, ++guessed;
  if (guessed <= kMostGuessed) return counts;
  counts = {};
  count_bytes(symbols, counts);
  return counts;
}

// What is put into the stream for each symbol: the code, its first bit lowest, and its length.
struct Code {
  std::uint16_t bits = 0, length = 0;
};

std::array<Code, kSymbols> codes_of(const Lengths& lengths) {
  std::array<std::uint32_t, kMostBits + 2> next{};
  for (const std::uint8_t length : lengths)
    if (length > 0) ++next[length + 1U];
  for (unsigned bits = 1; bits <= kMostBits; ++bits) next[bits + 1] += next[bits];
  // next[l] is now the number of shorter codes; the first code of l bits follows from them.
  std::array<std::uint32_t, kMostBits + 1> code{};
  for (unsigned bits = 1; bits <= kMostBits; ++bits)
    code[bits] = bits == 1 ? 0 : (code[bits - 1] + next[bits] - next[bits - 1]) << 1;
  std::array<Code, kSymbols> codes{};
  for (std::size_t s = 0; s < kSymbols; ++s)
    if (const unsigned length = lengths[s]; length > 0)
      codes[s] = {static_cast<std::uint16_t>(reversed(code[length]++, length)),
                  static_cast<std::uint16_t>(length)};
  return codes;
}

// The two ends of what occurs, and the table of lengths between them.
std::uint8_t* put_table(const Lengths& lengths, std::uint8_t* to) {
  const auto used = [](std::uint8_t length) { return length > 0; };
  const auto first =
      static_cast<std::size_t>(std::ranges::find_if(lengths, used) - lengths.begin());
  std::size_t last = kSymbols - 1;
  while (lengths[last] == 0) --last;
  *to++ = static_cast<std::uint8_t>(first);
  *to++ = static_cast<std::uint8_t>(last);
  unsigned half = 0;
  const auto put = [&](std::size_t four) {
    if (half++ % 2 == 0)
      *to = static_cast<std::uint8_t>(four);
    else
      *to++ |= static_cast<std::uint8_t>(four << 4);
  };
  for (std::size_t s = first; s <= last; ++s) {
    put(lengths[s]);
    if (lengths[s] > 0) continue;
    std::size_t more = 0;
    while (more < 15 && lengths[s + more + 1] == 0) ++more;
    put(more);
    s += more;
  }
  return to + half % 2;
}

kernels::BitCodes bit_codes_of(const Lengths& lengths) {
  const auto codes = codes_of(lengths);
  kernels::BitCodes words{};
  for (std::size_t s = 0; s < kSymbols; ++s)
    words[s] = static_cast<std::uint16_t>(codes[s].bits << 4 | codes[s].length);
  return words;
}

std::uint8_t* end_of(const kernels::BitStream& stream) {
  if (stream.used > 0) *stream.to = static_cast<std::uint8_t>(stream.word);
  return stream.to + (stream.used > 0);
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

std::size_t per_stream(std::size_t count) { return (count + kStreams - 1) / kStreams; }

// Symbols of stream k.
template <class Byte>
std::span<Byte> part_of(std::span<Byte> symbols, std::size_t k) {
  const std::size_t each = per_stream(symbols.size());
  const std::size_t from = std::min(symbols.size(), k * each);
  return symbols.subspan(from, std::min(each, symbols.size() - from));
}

std::uint64_t bits_of(std::span<const std::uint32_t, kSymbols> counts, const Lengths& lengths) {
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < kSymbols; ++s) bits += std::uint64_t{counts[s]} * lengths[s];
  return bits;
}

[[noreturn]] void refuse(const char* why) { throw DataError(std::string("Huffman codes: ") + why); }

// Reads the lengths of all symbols, of which at least two have a code.
Lengths take_table(ByteView& coded, unsigned first, unsigned last) {
  Lengths lengths{};
  std::size_t half = 0;
  const auto take = [&] {
    if (half / 2 >= coded.size()) refuse("the table ends early");
    const unsigned byte = coded[half / 2];
    return half++ % 2 == 0 ? byte & 15U : byte >> 4;
  };
  std::uint32_t used = 0;
  for (unsigned s = first; s <= last; ++s) {
    const unsigned length = take();
    if (length == 0) {
      s += take();
      if (s >= last) refuse("the table goes beyond the highest symbol");
    } else if (length > kMostBits) {
      refuse("a code of more than 11 bits");
    } else {
      lengths[s] = static_cast<std::uint8_t>(length);
      used += 1U << (kMostBits - length);
    }
  }
  if (half % 2 != 0 && take() != 0) refuse("the padding of the table is not zero");
  if (lengths[first] == 0) refuse("the lowest symbol has no code");
  if (used != 1U << kMostBits) refuse("the codes do not use up the code space");
  coded = coded.subspan(half / 2);
  return lengths;
}

// What 11 bits of a stream stand for: as many symbols as fit, up to four.
struct Entry {
  std::uint32_t symbols;  // the first lowest
  std::uint16_t length, number;
};
using Table = std::array<Entry, 1U << kMostBits>;

// The first symbol alone of each entry.
struct Single {
  std::uint8_t symbol, length;
};
using Singles = std::array<Single, 1U << kMostBits>;

void fill(const Lengths& lengths, Singles& singles, Table& table) {
  const auto codes = codes_of(lengths);
  for (std::size_t s = 0; s < kSymbols; ++s) {
    if (codes[s].length == 0) continue;
    const Single single{static_cast<std::uint8_t>(s), static_cast<std::uint8_t>(codes[s].length)};
    for (std::size_t i = codes[s].bits; i < singles.size(); i += std::size_t{1} << codes[s].length)
      singles[i] = single;
  }
  for (std::size_t i = 0; i < table.size(); ++i) {
    Entry entry{singles[i].symbol, singles[i].length, 1};
    while (entry.number < 4) {
      const Single next = singles[i >> entry.length];
      if (entry.length + next.length > static_cast<int>(kMostBits)) break;
      entry.symbols |= static_cast<std::uint32_t>(next.symbol) << (8 * entry.number++);
      entry.length = static_cast<std::uint16_t>(entry.length + next.length);
    }
    table[i] = entry;
  }
}

// A stream while it is read. Bits above `used` are those of the bytes that come next.
struct Stream {
  const std::uint8_t *in, *in_end;
  std::uint8_t *out, *out_end;
  std::uint64_t word = 0;
  unsigned used = 0;

  // Rounds of five lookups that surely stay inside: 55 bits, at most 20 symbols.
  std::size_t rounds() const {
    const auto left = in_end - in, room = out_end - out;
    return left < 8 ? 0 : static_cast<std::size_t>(std::min((left - 8) / 7 + 1, room / 20));
  }
  void refill() {
    word |= load<std::uint64_t>(in) << used;
    in += (63 - used) / 8;
    used |= 56;
  }
  void step(const Table& table) {
    const Entry entry = table[word & ((1U << kMostBits) - 1)];
    store(out, entry.symbols);
    out += entry.number;
    word >>= entry.length;
    used -= entry.length;
  }
  // The last symbols, one by one, and the end of the stream.
  void finish(const Singles& singles) {
    // The bits above `used` are read again below.
    word &= used == 0 ? 0 : ~std::uint64_t{0} >> (64 - used);
    while (out < out_end) {
      for (; used <= 56 && in < in_end; used += 8) word |= std::uint64_t{*in++} << used;
      const Single single = singles[word & ((1U << kMostBits) - 1)];
      if (single.length > used) refuse("a stream ends early");
      *out++ = single.symbol;
      word >>= single.length;
      used -= single.length;
    }
    if (in < in_end || used >= 8) refuse("a stream has bytes after its end");
    if (word != 0) refuse("the padding of a stream is not zero");
  }
};

}  // namespace

void count_bytes(ByteView bytes, std::span<std::uint32_t, 256> counts) {
  Tally tally;
  tally.add(bytes);
  tally.add_to(counts);
}

std::uint64_t huffman_size(std::span<const std::uint32_t, 256> counts) {
  Counts copy;
  std::ranges::copy(counts, copy.begin());
  if (std::ranges::count_if(copy, [](std::uint32_t c) { return c > 0; }) < 2) return 3;
  const Lengths lengths = lengths_of(copy);
  std::uint8_t table[kSymbols + 2];
  return static_cast<std::uint64_t>(put_table(lengths, table) - table) + 8 +
         bits_of(copy, lengths) / 8;
}

std::size_t huffman_encode(ByteView symbols, std::uint8_t* to) {
  if (symbols.size() < 4) return 0;
  const Counts counts = counts_of(symbols);
  if (std::ranges::count_if(counts, [](std::uint32_t c) { return c > 0; }) == 1) {
    to[0] = to[1] = symbols[0];
    return 2;
  }
  const Lengths lengths = lengths_of(counts);
  std::uint8_t* at = put_table(lengths, to);
  constexpr std::size_t kLengths = 3 * 3;  // at most, for streams below 2 MiB
  const std::uint64_t counted = std::reduce(counts.begin(), counts.end(), std::uint64_t{0});
  const double bits = static_cast<double>(bits_of(counts, lengths)) *
                      (static_cast<double>(symbols.size()) / static_cast<double>(counted));
  if (static_cast<double>(at - to) + kLengths + kStreams + bits / 8 >=
      static_cast<double>(symbols.size()))
    return 0;
  const kernels::BitCodes codes = bit_codes_of(lengths);
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

void huffman_decode(ByteView coded, std::span<std::uint8_t> symbols) {
  if (coded.size() < 2) refuse("the table is missing");
  const unsigned first = coded[0], last = coded[1];
  coded = coded.subspan(2);
  if (first == last) {
    if (!coded.empty()) refuse("bytes follow the only symbol");
    std::ranges::fill(symbols, static_cast<std::uint8_t>(first));
    return;
  }
  if (first > last) refuse("the lowest symbol is above the highest");
  const Lengths lengths = take_table(coded, first, last);
  ByteReader in(coded);
  std::uint64_t sizes[kStreams - 1];
  for (auto& size : sizes) size = in.varint("a stream's length");
  Stream streams[kStreams];
  for (std::size_t k = 0; k < kStreams; ++k) {
    const ByteView bytes =
        in.take(k + 1 < kStreams ? sizes[k] : in.left(), "a stream of Huffman codes");
    const auto part = part_of(symbols, k);
    streams[k] = {bytes.data(), bytes.data() + bytes.size(), part.data(),
                  part.data() + part.size()};
  }
  Singles singles;
  Table table;
  fill(lengths, singles, table);
  Stream a = streams[0], b = streams[1], c = streams[2], d = streams[3];
  for (;;) {
    std::size_t rounds = std::min({a.rounds(), b.rounds(), c.rounds(), d.rounds()});
    if (rounds == 0) break;
    for (; rounds > 0; --rounds) {
      a.refill(), b.refill(), c.refill(), d.refill();
      for (int i = 0; i < 5; ++i) a.step(table), b.step(table), c.step(table), d.step(table);
    }
  }
  a.finish(singles), b.finish(singles), c.finish(singles), d.finish(singles);
}

}  // namespace laconic
