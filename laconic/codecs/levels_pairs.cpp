// pairs: levels as symbols in Huffman codes, two to a byte where most are within +-7, so that the
// least of one bit is for both; else one to a byte. Levels beyond follow as numbers.
#include <atomic>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/huffman.h"
#include "laconic/codecs/levels.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

// A symbol is a level's zigzag number, or `escape` for that and all above.
struct Form {
  std::uint8_t tag;
  unsigned width;
  std::uint8_t escape;
};
constexpr Form kForms[] = {{0, 4, 15}, {1, 8, 255}};
constexpr std::size_t kMostVarint = 5;  // bytes of a level beyond

std::uint64_t guess_pairs(const LevelCounts& c) {
  return 1 + c.of_all(c.code_of_pairs.size) + 2 * c.of_all(c.beyond_pairs);
}
std::uint64_t guess_bytes(const LevelCounts& c) {
  return 1 + c.of_all(c.code_of_bytes.size) + 3 * c.of_all(c.beyond_bytes);
}

std::size_t min_size(std::size_t count, std::int32_t) {
  return 1 + Entropy::min_size(packed_size(kForms[0].width, count));
}

std::size_t max_size(std::size_t count, std::int32_t most) {
  const std::size_t beyond = most > 7 ? count * kMostVarint : 0;
  return 1 + Entropy::max_size(most > 7 ? count : packed_size(kForms[0].width, count)) + beyond;
}

void write(const Levels& levels, Buffer& out, const LevelWork& work) {
  if (!work.counts) {
    const LevelCounts counts = count_levels(levels);
    return write(levels, out, {work.positions, work.entropy, work.pool, &counts});
  }
  const LevelCounts& counts = *work.counts;
  const bool small = levels.most <= 7 || guess_pairs(counts) <= guess_bytes(counts);
  const Form form = kForms[small ? 0 : 1];
  out.append_number(form.tag);
  std::atomic<bool> beyond = false;
  const auto make = [&](std::size_t start, std::span<std::uint8_t> packed) {
    const std::size_t per_byte = 8 / form.width,
                      end = std::min(levels.count, (start + packed.size()) * per_byte);
    for (std::size_t from = start * per_byte; from < end; from += kLevelPiece) {
      std::uint8_t symbols[kLevelPiece];
      const std::size_t part = std::min(kLevelPiece, end - from);
      if (zigzag(levels.at.small + from, part, symbols) >= form.escape) {
        beyond = true;
        for (std::size_t i = 0; i < part; ++i) symbols[i] = std::min(symbols[i], form.escape);
      }
      pack_bytes(symbols, part, form.width, packed.data() + (from / per_byte - start));
    }
  };
  const HuffmanCode* known = small ? &counts.code_of_pairs : &counts.code_of_bytes;
  work.entropy.encode_made(packed_size(form.width, levels.count), make, out, work.pool,
                           counts.seen == levels.count ? known : nullptr);
  if (!beyond) return;
  for (std::size_t i = 0; i < levels.count; ++i)
    if (const std::uint32_t number = zigzag(levels[i]); number >= form.escape)
      put_varint(number - form.escape, out);
}

Form take_form(ByteReader& in) {
  const unsigned tag = in.take(1, "the form of levels in Huffman codes")[0];
  if (tag >= std::size(kForms))
    throw DataError("levels in Huffman codes: form " + std::to_string(tag) + "; allowed: 0 and 1");
  return kForms[tag];
}

[[noreturn]] void refuse(std::uint64_t number, std::int32_t most) {
  throw DataError("levels in Huffman codes: a level of " + std::to_string((number + 1) / 2) +
                  "; allowed: up to " + std::to_string(most));
}

ByteView read(ByteView bytes, const LevelsTo& levels, const LevelWork& work) {
  ByteReader in(bytes);
  const Form form = take_form(in);
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
  const auto escape = static_cast<std::int8_t>(unzigzag(form.escape));
  for (std::size_t i = 0; beyond && i < levels.count; ++i) {
    if (levels.at.small[i] != escape) continue;
    const std::uint64_t number = in.varint("a level beyond the symbols");
    if (number > most - form.escape) refuse(number + form.escape, levels.most);
    levels.at.set(i, unzigzag(static_cast<std::uint32_t>(number + form.escape)));
  }
  return in.rest();
}

const RegisterLevelCodec pairs{{
    .name = "pairs",
    .tag = 4,
    .summary = "Levels in Huffman codes, two at a time where they are small.",
    .paper = "Huffman, A Method for the Construction of Minimum-Redundancy Codes (1952)",
    .bits = "8 + Huffman codes of two levels each, or of one; varints of levels beyond",
    .takes = [](std::int32_t) { return true; },
    .guess = [](const LevelCounts& c) { return std::min(guess_pairs(c), guess_bytes(c)); },
    .min_size = min_size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic
