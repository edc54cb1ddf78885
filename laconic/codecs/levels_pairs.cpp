// pairs: levels as symbols in Huffman codes, two to a byte where most are within +-7, so that the
// least of one bit is for both; else one to a byte or, of wide ones, in two lanes of bytes. Levels
// beyond follow as numbers.
#include <atomic>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/huffman.h"
#include "laconic/codecs/levels.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/wide_bits.h"

namespace laconic {
namespace {

// A symbol is a level's zigzag number, or `escape` for that and all above.
struct Form {
  std::uint8_t tag;
  unsigned width;
  std::uint32_t escape;
};
constexpr Form kForms[] = {{0, 4, 15}, {1, 8, 255}, {2, 16, 65535}};
constexpr std::size_t kMostVarint = 5;  // bytes of a level beyond

std::uint64_t guess_pairs(const LevelCounts& c) {
  return 1 + c.of_all(c.code_of_pairs.size) + 2 * c.of_all(c.beyond_pairs);
}
std::uint64_t guess_bytes(const LevelCounts& c) {
  return 1 + c.of_all(c.code_of_bytes.size) + 3 * c.of_all(c.beyond_bytes);
}
// Nearly all of wide levels are above 0 in the second lane, or it takes next to nothing.
std::uint64_t guess_lanes(const LevelCounts& c) {
  return c.beyond_bytes == 0 ? ~std::uint64_t{0} : 1 + c.of_all(c.size_of_lanes);
}

std::size_t min_size(std::size_t count, std::int32_t) {
  return 1 + Entropy::min_size(packed_size(kForms[0].width, count));
}

std::size_t max_size(std::size_t count, std::int32_t most) {
  const std::size_t beyond = most > 7 ? count * kMostVarint : 0;
  if (most > kernels::kMostSmall) return 1 + Entropy::max_size(count, 2) + beyond;
  return 1 + Entropy::max_size(most > 7 ? count : packed_size(kForms[0].width, count)) + beyond;
}

const Form& form_for(const LevelCounts& counts) {
  const std::uint64_t pairs = guess_pairs(counts), bytes = guess_bytes(counts);
  if (guess_lanes(counts) < std::min(pairs, bytes)) return kForms[2];
  return kForms[counts.most <= 7 || pairs <= bytes ? 0 : 1];
}

void append_beyond(const Levels& levels, std::uint32_t escape, Buffer& out) {
  for (std::size_t i = 0; i < levels.count; ++i)
    if (const std::uint32_t number = zigzag(levels[i]); number >= escape)
      put_varint(number - escape, out);
}

void write_lanes(const Levels& levels, Buffer& out, const LevelWork& work) {
  std::atomic<bool> beyond = false;
  work.entropy.encode_lanes(
      levels.count, 2,
      [&](std::size_t from, std::size_t number, const Entropy::Lanes& lane) {
        if (kernels::split_wide_levels(levels.at.from(from), number, lane[0], lane[1]) ==
            kForms[2].escape)
          beyond = true;
      },
      out, work.pool);
  if (beyond) append_beyond(levels, kForms[2].escape, out);
}

void write(const Levels& levels, Buffer& out, const LevelWork& work) {
  if (!work.counts) {
    const LevelCounts counts = count_levels(levels);
    return write(levels, out, {work.positions, work.entropy, work.pool, &counts});
  }
  const LevelCounts& counts = *work.counts;
  const Form form = form_for(counts);
  out.append_number(form.tag);
  if (form.width > 8) return write_lanes(levels, out, work);
  std::atomic<bool> beyond = false;
  const auto make = [&](std::size_t start, std::span<std::uint8_t> packed) {
    const std::size_t per_byte = 8 / form.width,
                      end = std::min(levels.count, (start + packed.size()) * per_byte);
    for (std::size_t from = start * per_byte; from < end; from += kLevelPiece) {
      std::uint8_t symbols[kLevelPiece];
      const std::size_t part = std::min(kLevelPiece, end - from);
      if (zigzag(levels.at.small + from, part, symbols) >= form.escape) {
        beyond = true;
        const auto escape = static_cast<std::uint8_t>(form.escape);
        for (std::size_t i = 0; i < part; ++i) symbols[i] = std::min(symbols[i], escape);
      }
      pack_bytes(symbols, part, form.width, packed.data() + (from / per_byte - start));
    }
  };
  // Of many bytes the low bits may better stay as they are (codecs/chunk.h).
  const HuffmanCode* known = form.width == 4              ? &counts.code_of_pairs
                             : levels.count < kLevelPiece ? &counts.code_of_bytes
                                                          : nullptr;
  work.entropy.encode_made(packed_size(form.width, levels.count), make, out, work.pool,
                           counts.seen == levels.count ? known : nullptr);
  if (beyond) append_beyond(levels, form.escape, out);
}

Form take_form(ByteReader& in, std::int32_t most) {
  const unsigned tag = in.take(1, "the form of levels in Huffman codes")[0];
  const unsigned last = most > kernels::kMostSmall ? 2 : 1;
  if (tag > last)
    throw DataError("levels in Huffman codes: form " + std::to_string(tag) + "; allowed: 0 to " +
                    std::to_string(last));
  return kForms[tag];
}

[[noreturn]] void refuse(std::uint64_t number, std::int32_t most) {
  throw DataError("levels in Huffman codes: a level of " + std::to_string((number + 1) / 2) +
                  "; allowed: up to " + std::to_string(most));
}

// The numbers of levels that are the escape.
ByteView take_beyond(ByteView bytes, const LevelsTo& levels, std::uint32_t escape) {
  ByteReader in(bytes);
  const std::uint64_t most = 2 * static_cast<std::uint64_t>(levels.most);
  const std::int32_t known = unzigzag(escape);
  const auto small = static_cast<std::int8_t>(std::max<std::int32_t>(known, kernels::kWide));
  for (std::size_t i = 0; i < levels.count; ++i) {
    if (levels.at.small[i] != small || (escape > 255 && levels.at.wide[i] != known)) continue;
    const std::uint64_t number = in.varint("a level beyond the symbols");
    if (number > most - escape) refuse(number + escape, levels.most);
    levels.at.set(i, unzigzag(static_cast<std::uint32_t>(number + escape)));
  }
  return in.rest();
}

ByteView read_lanes(ByteView bytes, const LevelsTo& levels, const LevelWork& work) {
  const std::uint32_t escape = kForms[2].escape;
  std::atomic<bool> beyond = false;
  const auto use = [&](std::size_t from, std::size_t number, const Entropy::LaneViews& lane) {
    const std::uint32_t largest =
        kernels::join_wide_levels(lane[0], lane[1], number, levels.at.from(from));
    if (largest > 2 * static_cast<std::uint64_t>(levels.most)) refuse(largest, levels.most);
    if (largest == escape) beyond = true;
  };
  bytes = work.entropy.decode_lanes(bytes, levels.count, 2, use, work.pool);
  return beyond ? take_beyond(bytes, levels, escape) : bytes;
}

ByteView read(ByteView bytes, const LevelsTo& levels, const LevelWork& work) {
  ByteReader in(bytes);
  const Form form = take_form(in, levels.most);
  if (form.width > 8) return read_lanes(in.rest(), levels, work);
  const std::uint64_t most = 2 * static_cast<std::uint64_t>(levels.most);
  const std::size_t per_byte = 8 / form.width, size = packed_size(form.width, levels.count);
  std::atomic<bool> beyond = false;
  const auto use = [&](std::size_t start, ByteView packed) {
    const std::size_t end = std::min(levels.count, (start + packed.size()) * per_byte);
    if (start + packed.size() == size && !padding_is_zero(packed, form.width, levels.count))
      throw DataError("levels in Huffman codes: bits are set after the last level");
    for (std::size_t from = start * per_byte; from < end; from += kLevelPiece) {
      std::uint8_t symbols[kLevelPiece];
      symbols[0] = 0;  // g++ 12 fears that nothing is unpacked
      const std::size_t part = std::min(kLevelPiece, end - from);
      unpack_bytes(packed.data() + (from / per_byte - start), part, form.width, symbols);
      const std::uint8_t largest = unzigzag(symbols, part, levels.at.small + from);
      if (largest > most) refuse(largest, levels.most);
      if (largest == form.escape) beyond = true;
    }
  };
  in = ByteReader(work.entropy.decode_used(in.rest(), size, use, work.pool));
  return beyond ? take_beyond(in.rest(), levels, form.escape) : in.rest();
}

const RegisterLevelCodec pairs{{
    .name = "pairs",
    .tag = 4,
    .summary = "Levels in Huffman codes, two at a time where they are small.",
    .paper = "Huffman, A Method for the Construction of Minimum-Redundancy Codes (1952)",
    .bits =
        "8 + Huffman codes of two levels each, of one, or of what is above a byte of it; varints "
        "of levels beyond",
    .takes = [](std::int32_t) { return true; },
    .guess =
        [](const LevelCounts& c) {
          return std::min({guess_pairs(c), guess_bytes(c), guess_lanes(c)});
        },
    .min_size = min_size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic
