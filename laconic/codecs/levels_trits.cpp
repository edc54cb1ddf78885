// trits: levels -1, 0, 1, five to a byte: 1.6 bits each, where log2 3 = 1.585 is the least.
#include <algorithm>
#include <array>

#include "laconic/base/errors.h"
#include "laconic/codecs/levels.h"

namespace laconic {
namespace {

constexpr std::size_t kPerByte = 5;
constexpr unsigned kValues = 243;

std::size_t size_of(std::size_t count) { return (count + kPerByte - 1) / kPerByte; }

// The five levels of each byte.
constexpr auto kDigits = [] {
  std::array<std::array<std::int8_t, kPerByte>, kValues> digits{};
  for (unsigned byte = 0; byte < kValues; ++byte) {
    unsigned rest = byte;
    for (auto& digit : digits[byte]) {
      digit = static_cast<std::int8_t>(static_cast<int>(rest % 3) - 1);
      rest /= 3;
    }
  }
  return digits;
}();

void write(const Levels& levels, Buffer& out, const LevelWork&) {
  constexpr std::int32_t kPowers[] = {1, 3, 9, 27, 81};
  std::uint8_t* to = out.grow(size_of(levels.count));
  for (std::size_t from = 0; from < levels.count; from += kPerByte) {
    const auto part = levels.small().subspan(from, std::min(kPerByte, levels.count - from));
    std::int32_t byte = 0;
    for (std::size_t i = 0; i < part.size(); ++i) byte += (part[i] + 1) * kPowers[i];
    *to++ = static_cast<std::uint8_t>(byte);
  }
}

ByteView read(ByteView bytes, const LevelsTo& levels, const LevelWork&) {
  const std::size_t size = size_of(levels.count);
  if (bytes.size() < size) throw DataError("levels in trits: the section ends early");
  for (std::size_t from = 0; from < levels.count; from += kPerByte) {
    const std::uint8_t byte = bytes[from / kPerByte];
    if (byte >= kValues)
      throw DataError("levels in trits: a byte of " + std::to_string(byte) + "; allowed: 0 to 242");
    const auto part = levels.small().subspan(from, std::min(kPerByte, levels.count - from));
    std::copy_n(kDigits[byte].begin(), part.size(), part.begin());
    for (std::size_t i = part.size(); i < kPerByte; ++i)
      if (kDigits[byte][i] != -1) throw DataError("levels in trits: a digit after the last level");
  }
  return bytes.subspan(size);
}

const RegisterLevelCodec trits{{
    .name = "trits",
    .tag = 1,
    .summary = "Five levels of -1, 0, 1 to a byte.",
    .paper = "base 3",
    .bits = "8 ceil(n / 5)",
    .takes = [](std::int32_t most) { return most == 1; },
    .guess = [](const LevelCounts& counts) -> std::uint64_t { return size_of(counts.count); },
    .min_size = [](std::size_t count, std::int32_t) { return size_of(count); },
    .max_size = [](std::size_t count, std::int32_t) { return size_of(count); },
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic
