// CRC-32C, by eight tables or by the CPU's instruction in three interleaved streams (the
// instruction has a latency of three cycles, so one stream alone runs at a third of the speed).
#include "laconic/codecs/crc32c.h"

#include <array>

namespace laconic {
namespace {

using Table = std::array<std::uint32_t, 256>;

constexpr std::uint32_t kPolynomial = 0x82f63b78U;

constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (std::size_t t = 1; t < 8; ++t)
    for (std::uint32_t i = 0; i < 256; ++i)
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 255];
  return tables;
}

constexpr auto kTables = make_tables();

std::uint32_t by_table(const std::uint8_t* p, std::size_t count, std::uint32_t crc) {
  for (; count >= 8; p += 8, count -= 8) {
    const std::uint64_t word = load<std::uint64_t>(p) ^ crc;
    crc = 0;
    for (unsigned byte = 0; byte < 8; ++byte) crc ^= kTables[7 - byte][(word >> (8 * byte)) & 255];
  }
  for (; count > 0; ++p, --count) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 255];
  return crc;
}

#if defined(__x86_64__)

// Bytes of each of the three streams: long ones, and short ones for what they leave of a block of
// 16 KB, which is a quarter of it.
constexpr std::size_t kLong = 4096, kShort = 256;
using Shift = std::array<Table, 4>;

// What running so many zero bytes, a power of two, through a checksum does to it, a byte of the
// checksum at a time.
constexpr Shift make_shift(std::size_t stride) {
  std::array<std::uint32_t, 32> columns{};
  for (unsigned bit = 0; bit < 32; ++bit) columns[bit] = 1U << bit;
  const auto apply = [](const std::array<std::uint32_t, 32>& matrix, std::uint32_t vector) {
    std::uint32_t sum = 0;
    for (unsigned bit = 0; bit < 32; ++bit)
      if (vector >> bit & 1) sum ^= matrix[bit];
    return sum;
  };
  for (auto& column : columns)  // one zero byte
    for (int bit = 0; bit < 8; ++bit) column = (column >> 1) ^ (column & 1 ? kPolynomial : 0);
  for (std::size_t bytes = 1; bytes < stride; bytes *= 2) {  // squaring doubles the count
    auto squared = columns;
    for (auto& column : squared) column = apply(columns, column);
    columns = squared;
  }
  Shift shift{};
  for (unsigned byte = 0; byte < 4; ++byte)
    for (std::uint32_t i = 0; i < 256; ++i) shift[byte][i] = apply(columns, i << (8 * byte));
  return shift;
}

const Shift kLongShift = make_shift(kLong), kShortShift = make_shift(kShort);

std::uint32_t shifted(const Shift& by, std::uint32_t crc) {
  return by[0][crc & 255] ^ by[1][crc >> 8 & 255] ^ by[2][crc >> 16 & 255] ^ by[3][crc >> 24];
}

// As many times three streams as there are.
template <std::size_t stride>
[[gnu::target("sse4.2")]] std::uint32_t by_streams(const std::uint8_t*& p, std::size_t& count,
                                                   const Shift& by, std::uint32_t crc) {
  for (; count >= 3 * stride; p += 3 * stride, count -= 3 * stride) {
    std::uint64_t a = crc, b = 0, c = 0;
    for (std::size_t i = 0; i < stride; i += 8) {
      a = __builtin_ia32_crc32di(a, load<std::uint64_t>(p + i));
      b = __builtin_ia32_crc32di(b, load<std::uint64_t>(p + stride + i));
      c = __builtin_ia32_crc32di(c, load<std::uint64_t>(p + 2 * stride + i));
    }
    const auto ab = shifted(by, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    crc = shifted(by, ab) ^ static_cast<std::uint32_t>(c);
  }
  return crc;
}

[[gnu::target("sse4.2")]] std::uint32_t by_instruction(const std::uint8_t* p, std::size_t count,
                                                       std::uint32_t crc) {
  crc = by_streams<kLong>(p, count, kLongShift, crc);
  crc = by_streams<kShort>(p, count, kShortShift, crc);
  std::uint64_t one = crc;
  for (; count >= 8; p += 8, count -= 8) one = __builtin_ia32_crc32di(one, load<std::uint64_t>(p));
  crc = static_cast<std::uint32_t>(one);
  for (; count > 0; ++p, --count) crc = __builtin_ia32_crc32qi(crc, *p);
  return crc;
}

bool has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

#else

bool has_instruction() { return false; }
std::uint32_t by_instruction(const std::uint8_t* p, std::size_t count, std::uint32_t crc) {
  return by_table(p, count, crc);
}

#endif

}  // namespace

std::uint32_t crc32c(ByteView bytes, std::uint32_t before) {
  return ~(has_instruction() ? by_instruction : by_table)(bytes.data(), bytes.size(), ~before);
}

std::uint32_t crc32c_portable(ByteView bytes, std::uint32_t before) {
  return ~by_table(bytes.data(), bytes.size(), ~before);
}

}  // namespace laconic
