// Reading Huffman codes: in four streams whose lookups overlap. A lookup finds one symbol or, where
// there are many, up to four.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "laconic/base/errors.h"
#include "laconic/codecs/huffman.h"
#include "laconic/codecs/huffman_parts.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

using namespace huffman;

[[noreturn]] void refuse(const char* why) { throw DataError(std::string("Huffman codes: ") + why); }

// The symbols that have a code, at least two, by length and then by value.
struct Order {
  Numbers of_length{};
  std::uint8_t symbols[kSymbols];
  unsigned longest = 0;
};

// Reads it off the front.
Order take_table(ByteView& coded, unsigned first, unsigned last) {
  std::size_t half = 0;
  const auto take = [&] {
    if (half / 2 >= coded.size()) refuse("the table ends early");
    const unsigned byte = coded[half / 2];
    return half++ % 2 == 0 ? byte & 15U : byte >> 4;
  };
  Order order;
  std::uint8_t symbols[kSymbols], lengths[kSymbols];
  std::size_t number = 0;
  std::uint32_t used = 0;
  for (unsigned s = first; s <= last; ++s) {
    const unsigned length = take();
    if (length == 0) {
      s += take();
      if (s >= last) refuse("the table goes beyond the highest symbol");
      if (number == 0) refuse("the lowest symbol has no code");
      continue;
    }
    if (length > kMostBits) refuse("a code of more than 11 bits");
    symbols[number] = static_cast<std::uint8_t>(s);
    lengths[number++] = static_cast<std::uint8_t>(length);
    ++order.of_length[length];
    used += 1U << (kMostBits - length);
  }
  if (half % 2 != 0 && take() != 0) refuse("the padding of the table is not zero");
  if (used != 1U << kMostBits) refuse("the codes do not use up the code space");
  coded = coded.subspan(half / 2);
  std::size_t at[kMostBits + 1], sum = 0;
  for (unsigned bits = 1; bits <= kMostBits; ++bits) {
    at[bits] = std::exchange(sum, sum + order.of_length[bits]);
    if (order.of_length[bits] > 0) order.longest = bits;
  }
  for (std::size_t i = 0; i < number; ++i) order.symbols[at[lengths[i]]++] = symbols[i];
  return order;
}

// What the next bits of a stream stand for.
struct Single {
  std::uint8_t symbol, length;
};
struct Several {
  std::uint32_t symbols;  // the first lowest
  std::uint16_t length, number;
};

// The symbols that `bits` bits begin with, in a table of 2^bits.
using Singles = std::array<Single, 1U << kMostBits>;
using Table = std::array<Several, 1U << kMostBits>;

// Bit by bit: what shorter codes stand for is there twice, and codes of so many bits fill what none
// of those has.
void fill(const Order& order, unsigned size, Singles& singles) {
  const std::uint8_t* symbol = order.symbols;
  const Numbers first = first_codes(order.of_length);
  singles[0] = {};
  for (unsigned bits = 1; bits <= size; ++bits) {
    const std::size_t half = std::size_t{1} << (bits - 1);
    std::copy_n(singles.begin(), half, singles.begin() + static_cast<std::ptrdiff_t>(half));
    for (std::uint32_t i = 0; i < order.of_length[bits]; ++i)
      singles[reversed(first[bits] + i, bits)] = {*symbol++, static_cast<std::uint8_t>(bits)};
  }
}

// As many symbols as fit the bits.
void fill(const Singles& singles, unsigned bits, Table& table) {
  for (std::size_t i = 0; i < std::size_t{1} << bits; ++i) {
    Several several{singles[i].symbol, singles[i].length, 1};
    while (several.number < 4) {
      const Single next = singles[i >> several.length];
      if (several.length + next.length > static_cast<int>(bits)) break;
      several.symbols |= static_cast<std::uint32_t>(next.symbol) << (8 * several.number++);
      several.length = static_cast<std::uint16_t>(several.length + next.length);
    }
    table[i] = several;
  }
}

// A stream while it is read. Bits above `used` are those of the bytes that come next.
struct Stream {
  const std::uint8_t *in, *in_end;
  std::uint8_t *out, *out_end;
  std::uint64_t word = 0;
  unsigned used = 0;

  static constexpr std::ptrdiff_t kLookups = 5;  // 55 bits at most

  // Rounds of lookups, of up to `each` symbols, that surely stay inside.
  std::size_t rounds(std::ptrdiff_t each) const {
    const auto left = in_end - in, room = out_end - out;
    return left < 8
               ? 0
               : static_cast<std::size_t>(std::min((left - 8) / 7 + 1, room / (kLookups * each)));
  }
  void refill() {
    word |= load<std::uint64_t>(in) << used;
    in += (63 - used) / 8;
    used |= 56;
  }
  void step(const Several* table, std::size_t mask) {
    const Several entry = table[word & mask];
    store(out, entry.symbols);
    out += entry.number;
    word >>= entry.length;
    used -= entry.length;
  }
  void step(const Single* table, std::size_t mask) {
    const Single entry = table[word & mask];
    *out++ = entry.symbol;
    word >>= entry.length;
    used -= entry.length;
  }
  // The last symbols, one by one, and the end of the stream.
  void finish(const Singles& singles, std::size_t mask) {
    // The bits above `used` are read again below.
    word &= used == 0 ? 0 : ~std::uint64_t{0} >> (64 - used);
    while (out < out_end) {
      for (; used <= 56 && in < in_end; used += 8) word |= std::uint64_t{*in++} << used;
      const Single single = singles[word & mask];
      if (single.length > used) refuse("a stream ends early");
      *out++ = single.symbol;
      word >>= single.length;
      used -= single.length;
    }
    if (in < in_end || used >= 8) refuse("a stream has bytes after its end");
    if (word != 0) refuse("the padding of a stream is not zero");
  }
};

// All four as far as they go together.
template <std::ptrdiff_t kEach, class Entry>
void read_together(Stream (&streams)[kStreams], const Entry* table, std::size_t mask) {
  Stream a = streams[0], b = streams[1], c = streams[2], d = streams[3];
  for (;;) {
    std::size_t rounds =
        std::min({a.rounds(kEach), b.rounds(kEach), c.rounds(kEach), d.rounds(kEach)});
    if (rounds == 0) break;
    for (; rounds > 0; --rounds) {
      a.refill(), b.refill(), c.refill(), d.refill();
      for (std::ptrdiff_t i = 0; i < Stream::kLookups; ++i)
        a.step(table, mask), b.step(table, mask), c.step(table, mask), d.step(table, mask);
    }
  }
  streams[0] = a, streams[1] = b, streams[2] = c, streams[3] = d;
}

}  // namespace

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
  const Order order = take_table(coded, first, last);
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
  // A table of several symbols takes as long to fill as so many symbols gain by it.
  constexpr std::size_t kMany = 8192;
  const bool many = symbols.size() >= kMany;
  const unsigned bits = many ? kMostBits : order.longest;
  const std::size_t mask = (std::size_t{1} << bits) - 1;
  Singles singles;
  fill(order, bits, singles);
  if (!many) {
    read_together<1>(streams, singles.data(), mask);
  } else {
    Table table;
    fill(singles, bits, table);
    read_together<4>(streams, table.data(), mask);
  }
  for (Stream& stream : streams) stream.finish(singles, mask);
}

}  // namespace laconic
