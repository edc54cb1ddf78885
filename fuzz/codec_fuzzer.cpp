// Codecs: hostile bytes are refused or have one meaning, and every array comes back from its code.
// Input: u8 selects the codec, the rest is for it.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "laconic/codecs/chunk.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/codecs/elias.h"
#include "laconic/codecs/entropy.h"
#include "laconic/codecs/fixed.h"
#include "laconic/codecs/huffman.h"
#include "laconic/codecs/index.h"
#include "laconic/codecs/masked.h"
#include "laconic/codecs/rice.h"
#include "laconic/codecs/varint.h"

namespace laconic::fuzz {
namespace {

bool bit_of(ByteView bytes, std::size_t i) { return (bytes[i / 8] >> (i % 8) & 1) != 0; }

void varints(Input in) {
  ByteReader reader(in.rest());
  std::uint64_t value = 0;
  for (;;) {
    const ByteView before = reader.rest();
    if (!accepts([&] { value = reader.varint("a number"); })) break;
    Buffer again;
    put_varint(value, again);
    require(std::ranges::equal(again.view(), before.first(before.size() - reader.left())),
            "a number has one spelling");
  }
  const auto number = in.take<std::uint64_t>() >> in.take<std::uint8_t>() % 64;
  Buffer out;
  put_varint(number, out);
  require(out.size() == varint_size(number), "varint_size is the size");
  require(ByteReader(out.view()).varint("a number") == number, "a varint comes back");
}

void bits(Input in) {
  const ByteView widths = in.take(in.take<std::uint8_t>());
  const ByteView stream = in.rest();
  BitReader reader(stream);
  Buffer out;
  BitWriter writer(out);
  std::size_t at = 0;
  for (const std::uint8_t byte : widths) {
    const unsigned width = byte % 58;
    std::uint64_t value = 0, slow = 0;
    require(reader.bits_left() == stream.size() * 8 - at, "bits_left counts down");
    const bool got = accepts([&] { value = reader.get(width); });
    require(got == (at + width <= stream.size() * 8), "a stream ends where its bytes end");
    if (!got) break;
    for (unsigned i = 0; i < width; ++i)
      slow |= static_cast<std::uint64_t>(bit_of(stream, at++)) << i;
    require(value == slow, "the lowest bit comes first");
    writer.put(value, width);
  }
  writer.finish();
  require(out.size() == (at + 7) / 8, "a stream ends on its last byte");
  for (std::size_t i = 0; i < out.size() * 8; ++i)
    require(bit_of(out.view(), i) == (i < at && bit_of(stream, i)), "bits come back, then zeros");
  accepts([&] { reader.expect_end(); });
}

void fixed(Input in) {
  const unsigned width = in.take<std::uint8_t>() % 33;
  std::vector<std::uint32_t> symbols(in.take<std::uint16_t>());
  if (accepts([&] { unpack(in.rest(), width, symbols); })) {
    require(in.rest().size() == packed_size(width, symbols.size()), "the size follows the count");
    require(padding_is_zero(in.rest(), width, symbols.size()), "padding is zero");
    Buffer again;
    pack(symbols, width, again);
    require(std::ranges::equal(again.view(), in.rest()), "symbols have one packing");
  }
  symbols.resize(in.rest().size() / 4);
  for (auto& symbol : symbols)
    symbol = static_cast<std::uint32_t>(in.take<std::uint32_t>() & ((1ULL << width) - 1));
  Buffer out;
  pack(symbols, width, out);
  auto back = symbols;
  unpack(out.view(), width, back);
  require(back == symbols, "packed symbols come back");
}

// Mostly short, because long arrays make slow runs; some are of three chunks.
void entropy(Input in) {
  const std::size_t times = in.take<std::uint8_t>() == 255 ? 9 : 1;
  const std::size_t count = times * in.take<std::uint16_t>();
  std::vector<std::uint8_t> bytes(count);
  Pool pool(1);
  Entropy codec;
  accepts([&] {
    const ByteView left = codec.decode(in.rest(), bytes, pool);
    require(left.size() <= in.rest().size() - Entropy::min_size(count), "min_size is a bound");
  });
  if (in.rest().empty()) return;
  for (std::size_t i = 0; i < count; ++i) bytes[i] = in.rest()[i % in.rest().size()];
  Buffer out;
  codec.encode(bytes, out, pool);
  require(out.size() >= Entropy::min_size(count) && out.size() <= Entropy::max_size(count),
          "the coded size is within its bounds");
  out.append(in.rest());
  std::vector<std::uint8_t> back(count);
  const ByteView left = codec.decode(out.view(), back, pool);
  require(back == bytes, "coded bytes come back");
  require(std::ranges::equal(left, in.rest()), "what follows is left");
}

void huffman(Input in) {
  std::vector<std::uint8_t> symbols(in.take<std::uint16_t>());
  accepts([&] { huffman_decode(in.rest(), symbols); });
  if (in.rest().empty()) return;
  for (std::size_t i = 0; i < symbols.size(); ++i) symbols[i] = in.rest()[i % in.rest().size()];
  std::vector<std::uint8_t> coded(huffman_room(symbols.size())), back(symbols.size());
  coded.resize(huffman_encode(symbols, coded.data()));
  require(coded.empty() || coded.size() < symbols.size(), "Huffman codes are shorter");
  if (coded.empty()) return;
  huffman_decode(coded, back);
  require(back == symbols, "symbols in Huffman codes come back");
}

// Input: u8 lanes, u16 count, then bytes to read; symbols to write are made of the same.
void lanes(Input in) {
  const std::size_t number = in.take<std::uint8_t>() % 2 == 0 ? 2 : 4;
  const std::size_t count = in.take<std::uint16_t>();
  Pool pool(1);
  Entropy codec;
  accepts([&] {
    const ByteView left = codec.decode_lanes(
        in.rest(), count, number, [](std::size_t, std::size_t, const Entropy::LaneViews&) {}, pool);
    require(left.size() <= in.rest().size() - Entropy::min_size(count, number),
            "min_size is a bound");
  });
  if (in.rest().empty()) return;
  const auto byte = [&](std::size_t i, std::size_t lane) {
    return static_cast<std::uint8_t>(in.rest()[(i * number + lane) % in.rest().size()] >>
                                     (i / 64 % 8));
  };
  Buffer out;
  codec.encode_lanes(
      count, number,
      [&](std::size_t from, std::size_t part, const Entropy::Lanes& to) {
        for (std::size_t i = 0; i < part; ++i)
          for (std::size_t lane = 0; lane < number; ++lane) to[lane][i] = byte(from + i, lane);
      },
      out, pool);
  require(out.size() >= Entropy::min_size(count, number) &&
              out.size() <= Entropy::max_size(count, number),
          "the coded size is within its bounds");
  const ByteView left = codec.decode_lanes(
      out.view(), count, number,
      [&](std::size_t from, std::size_t part, const Entropy::LaneViews& back) {
        for (std::size_t i = 0; i < part; ++i)
          for (std::size_t lane = 0; lane < number; ++lane)
            require(back[lane][i] == byte(from + i, lane), "lanes come back");
      },
      pool);
  require(left.empty(), "nothing is left");
}

// Input: u16 count, then bytes to read as a coded chunk; those to write are the same, some of them
// with few bits, so that every form is written.
void chunk(Input in) {
  std::vector<std::uint8_t> bytes(in.take<std::uint16_t>()), above(bytes.size());
  accepts([&] { decode_chunk(in.rest(), bytes, above.data()); });
  if (in.rest().empty()) return;
  const unsigned unused = in.rest()[0] % 8;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(in.rest()[i % in.rest().size()] >> unused);
  std::vector<std::uint8_t> coded(chunk_room(bytes.size())), back(bytes.size());
  coded.resize(encode_chunk(bytes, coded.data(), above.data()));
  require(coded.empty() || coded.size() < bytes.size(), "coded chunks are shorter");
  if (coded.empty()) return;
  decode_chunk(coded, back, above.data());
  require(back == bytes, "a coded chunk comes back");
}

void masked(Input in) {
  const std::size_t count = in.take<std::uint16_t>();
  const ByteView mask = in.take(count);
  std::vector<std::uint8_t> plane(packed_size(1, mask.size()));
  if (accepts([&] { expand_bits(in.rest(), mask, plane); })) {
    Buffer again;
    compact_bits(plane, mask, again);
    require(std::ranges::equal(again.view(), in.rest()), "bits have one compaction");
  }
  for (auto& byte : plane) byte = in.take<std::uint8_t>();
  Buffer compacted;
  compact_bits(plane, mask, compacted);
  require(compacted.size() == packed_size(1, count_nonzero(mask)), "only bits beside bytes remain");
  std::vector<std::uint8_t> back(plane.size(), 255);
  expand_bits(compacted.view(), mask, back);
  for (std::size_t i = 0; i < back.size() * 8; ++i) {
    const bool kept = i < mask.size() && mask[i] != 0;
    require(bit_of(back, i) == (kept && bit_of(plane, i)), "kept bits come back, others are zero");
  }
}

// Positions that the input draws: from each chunk as many as its share, or any below count.
std::vector<std::uint32_t> positions_of(Input in, const IndexSpace& space, std::size_t kept) {
  const bool even = space.chunk > 0 && kept == space.evenly();
  const std::size_t stretch = even ? space.chunk : std::max<std::size_t>(1, space.count);
  std::vector<std::uint32_t> positions;
  for (std::size_t first = 0; first < space.count; first += stretch) {
    const std::size_t size = std::min(stretch, space.count - first);
    const std::size_t wanted = std::min(even ? space.per_chunk : kept, size);
    for (std::size_t next = 0, left = wanted; left > 0; --left) {  // leaves room for those to come
      const std::size_t room = size - next - left;
      const std::size_t gap = room == 0 ? 0 : in.take<std::uint16_t>() % (room + 1);
      positions.push_back(static_cast<std::uint32_t>(first + next + gap));
      next += gap + 1;
    }
  }
  return positions;
}

// Input: u8 codec, u16 count, u16 kept, u8 chunk, u8 per chunk, then bytes to read. A kept of 65535
// stands for as many as are spread evenly.
void index(Input in) {
  const auto& codec = index_codecs()[in.take<std::uint8_t>() % index_codecs().size()];
  IndexSpace space{.count = in.take<std::uint16_t>()};
  std::size_t kept = in.take<std::uint16_t>();
  space.chunk = in.take<std::uint8_t>();
  space.per_chunk = in.take<std::uint8_t>();
  if (kept == 65535) kept = space.evenly();
  kept = std::min(kept, in.rest().size() * 8 + 64);  // more would be slow and teach nothing
  std::vector<std::uint32_t> positions(std::min(kept, in.rest().size() * 8));
  ByteView left;
  if (accepts([&] { left = codec.read(in.rest(), space, positions); })) {
    require(std::ranges::adjacent_find(positions, std::greater_equal<>()) == positions.end() &&
                (positions.empty() || positions.back() < space.count),
            "positions ascend and stay below count");
    Buffer again;
    codec.write(positions, space, again);
    again.append(left);
    require(std::ranges::equal(again.view(), in.rest()), "positions have one spelling");
  }
  positions = positions_of(in, space, std::min(kept, space.count));
  Buffer out;
  codec.write(positions, space, out);
  require(out.size() == codec.size(positions, space), "size is the size");
  require(out.size() <= codec.max_size(positions.size(), space), "max_size is a bound");
  out.append(in.rest());
  std::vector<std::uint32_t> back(positions.size());
  left = codec.read(out.view(), space, back);
  require(back == positions, "positions come back");
  require(std::ranges::equal(left, in.rest()), "what follows is left");
}

// A stream of codes: get(reader) until it is refused, each number written again gives the bits that
// were taken.
template <class Get, class Put>
void one_spelling(ByteView stream, Get get, Put put) {
  BitReader reader(stream);
  Buffer out;
  BitWriter writer(out);
  std::size_t end = 0;
  for (std::uint32_t number = 0; accepts([&] { number = get(reader); });) {
    put(number, writer);
    end = stream.size() * 8 - static_cast<std::size_t>(reader.bits_left());
  }
  writer.finish();
  require(out.size() == (end + 7) / 8, "numbers take as many bits as they were read from");
  for (std::size_t i = 0; i < end; ++i)
    require(bit_of(out.view(), i) == bit_of(stream, i), "a number has one code");
}

// Input: u8 low bits of the Rice codes, u32 their largest number, then a stream, read as both
// codes.
void codes(Input in) {
  const unsigned low = in.take<std::uint8_t>() % 32;
  const auto largest = in.take<std::uint32_t>();
  const Rice rice(low, largest);
  const auto put_rice = [&](std::uint32_t value, BitWriter& out) { rice.put(value, out); };
  one_spelling(
      in.rest(), [&](BitReader& reader) { return rice.get(reader); }, put_rice);
  one_spelling(in.rest(), get_omega, put_omega);
  Buffer out;
  BitWriter writer(out);
  std::size_t length = 0;
  std::vector<std::uint32_t> numbers(in.rest().size() / 4);
  for (auto& number : numbers) {
    number = in.take<std::uint32_t>();
    number = std::max(1U, number >> number % 32);
    rice.put(std::min(number, largest), writer);
    put_omega(number, writer);
    length += rice.length(std::min(number, largest)) + omega_length(number);
  }
  writer.finish();
  require(out.size() == (length + 7) / 8, "lengths are exact");
  BitReader reader(out.view());
  for (const std::uint32_t number : numbers) {
    require(rice.get(reader) == std::min(number, largest), "a Rice code comes back");
    require(get_omega(reader) == number, "an Elias omega code comes back");
  }
  require(reader.rest().empty(), "nothing is left");
}

void checksum(Input in) {
  const std::size_t cut = in.take<std::uint16_t>();
  std::vector<std::uint8_t> bytes(in.rest().begin(), in.rest().end());
  const ByteView head = in.take(cut), tail = in.rest();
  const std::uint32_t all = crc32c(bytes);
  require(all == crc32c_portable(bytes), "the instruction and the table agree");
  require(all == crc32c(tail, crc32c(head)), "a checksum continues");
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace laconic::fuzz;
  constexpr void (*kCodecs[])(Input) = {varints, bits,  fixed,   entropy, masked, checksum,
                                        index,   codes, huffman, lanes,   chunk};
  Input in(data, size);
  kCodecs[in.take<std::uint8_t>() % std::size(kCodecs)](in);
  return 0;
}
