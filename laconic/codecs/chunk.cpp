// Which low bits stay as they are, by the counts of a sample.
#include "laconic/codecs/chunk.h"

#include <algorithm>
#include <bit>

#include "laconic/base/errors.h"
#include "laconic/codecs/fixed.h"
#include "laconic/codecs/huffman_parts.h"
#include "laconic/kernels/split_bytes.h"

namespace laconic {
namespace {

using kernels::Split;

constexpr unsigned kMostLow = 7, kPaired = 8;
constexpr std::size_t kWorthCutting = 4096;   // bytes: fewer are read soon enough as they are
constexpr std::size_t kWorthPairing = 16384;  // a code of pairs has a table of up to 128 bytes

using Counts = std::array<std::uint32_t, 256>;

// Of many, every sixteenth stretch.
Counts sample_of(ByteView bytes) {
  constexpr std::size_t kStretch = 512, kAll = 16384;
  Counts counts{};
  const std::size_t stride = bytes.size() <= kAll ? kStretch : 16 * kStretch;
  for (std::size_t from = 0; from < bytes.size(); from += stride)
    count_bytes(bytes.subspan(from, std::min(kStretch, bytes.size() - from)), counts);
  return counts;
}

// The entropy of symbols that occur so often, all together, in parts of 2^16 of a bit.
std::uint64_t entropy_of(std::span<const std::uint32_t> counts, std::uint64_t all) {
  std::uint64_t known = 0;
  for (const std::uint32_t count : counts)
    if (count > 0) known += count * huffman::about_log2(count);
  return std::max(all * huffman::about_log2(static_cast<std::uint32_t>(all)), known) - known;
}

struct Choice {
  bool codes = true;  // else the bytes are next to random
  Split cut;
};

// As many low bits as cost at most one part in kLoss of the coded size: bits that are not coded
// take one each.
Choice choose(ByteView bytes) {
  constexpr std::uint64_t kLoss = 128, kOne = 65536, kAlmostEight = 796 * kOne / 100;
  Counts counts = sample_of(bytes);
  std::uint64_t all = 0;
  for (const std::uint32_t count : counts) all += count;
  const std::uint64_t least = entropy_of(counts, all);
  if (least >= all * kAlmostEight) return {.codes = false, .cut = {}};
  if (least == 0) return {};  // the only symbol takes two bytes as it is
  const std::uint64_t most = least + least / kLoss;
  Choice best;
  for (unsigned low = 0; low <= kMostLow; ++low) {
    const std::span above(counts.data(), counts.size() >> low);
    for (std::size_t s = 0; low > 0 && s < above.size(); ++s)
      above[s] = counts[2 * s] + counts[2 * s + 1];
    if (low > 0 && all * low * kOne + entropy_of(above, all) > most) break;
    const bool fits = std::ranges::all_of(above.subspan(std::min<std::size_t>(16, above.size())),
                                          [](std::uint32_t count) { return count == 0; });
    best.cut = {.low = low, .paired = bytes.size() >= kWorthPairing && fits};
  }
  return best;
}

bool is_cut(Split cut) { return cut.low > 0 || cut.paired; }

[[noreturn]] void refuse(const std::string& why) { throw DataError("a coded chunk: " + why); }

std::size_t symbols_above(std::size_t count, Split cut) {
  return cut.paired ? count / 2 + count % 2 : count;
}

}  // namespace

std::size_t encode_chunk(ByteView bytes, std::uint8_t* to, std::uint8_t* above,
                         const HuffmanCode* known) {
  Choice choice;
  if (!known && bytes.size() >= kWorthCutting) choice = choose(bytes);
  if (!choice.codes) return 0;
  Split cut = choice.cut;
  std::uint8_t* at = to + 1;
  if (is_cut(cut)) {
    const auto split = [&] {
      return kernels::split_bytes(bytes.data(), bytes.size(), cut, at, above);
    };
    if (split() > 15 && cut.paired) {
      cut.paired = false;
      if (cut.low > 0) split();
    }
    at += packed_size(cut.low, bytes.size());
  }
  to[0] = static_cast<std::uint8_t>(cut.low | (cut.paired ? kPaired : 0));
  const ByteView symbols = is_cut(cut) ? ByteView(above, symbols_above(bytes.size(), cut)) : bytes;
  const std::size_t codes = huffman_encode(symbols, at, known);
  const std::size_t size = static_cast<std::size_t>(at - to) + codes;
  return codes > 0 && size < bytes.size() ? size : 0;
}

void decode_chunk(ByteView coded, std::span<std::uint8_t> bytes, std::uint8_t* above) {
  if (coded.empty()) refuse("its form is missing");
  const unsigned form = coded[0];
  coded = coded.subspan(1);
  if (form == 0) return huffman_decode(coded, bytes);
  const Split cut{.low = form & kMostLow, .paired = form >= kPaired};
  if (form >= 2 * kPaired) refuse("form " + std::to_string(form) + "; allowed: 0 to 15");
  const std::size_t size = packed_size(cut.low, bytes.size());
  if (coded.size() < size) refuse("its low bits end early");
  const ByteView low = coded.first(size);
  if (!padding_is_zero(low, cut.low, bytes.size())) refuse("bits are set after its last low bits");
  const std::span<std::uint8_t> symbols(above, symbols_above(bytes.size(), cut));
  huffman_decode(coded.subspan(size), symbols);
  if (cut.paired && !padding_is_zero(symbols, 4, bytes.size()))
    refuse("bits are set after its last symbol");
  const unsigned largest = kernels::join_bytes(low.data(), above, bytes.size(), cut, bytes.data());
  if (largest > 255U >> cut.low)
    refuse("a symbol of " + std::to_string(largest) + " above " + std::to_string(cut.low) +
           " low bits");
}

}  // namespace laconic
