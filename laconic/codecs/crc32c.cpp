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

constexpr std::size_t kStride = 4096;  // bytes of each of the three streams

// What running kStride zero bytes through a checksum does to it, a byte of the checksum at a time.
constexpr std::array<Table, 4> make_shift() {
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
  for (std::size_t bytes = 1; bytes < kStride; bytes *= 2) {  // squaring doubles the count
    auto squared = columns;
    for (auto& column : squared) column = apply(columns, column);
    columns = squared;
  }
  std::array<Table, 4> shift{};
  for (unsigned byte = 0; byte < 4; ++byte)
    for (std::uint32_t i = 0; i < 256; ++i) shift[byte][i] = apply(columns, i << (8 * byte));
  return shift;
}

const auto kShift = make_shift();

std::uint32_t shifted(std::uint32_t crc) {
  return kShift[0][crc & 255] ^ kShift[1][crc >> 8 & 255] ^ kShift[2][crc >> 16 & 255] ^
         kShift[3][crc >> 24];
}

[[gnu::target("sse4.2")]] std::uint32_t by_instruction(const std::uint8_t* p, std::size_t count,
                                                       std::uint32_t crc) {
  for (; count >= 3 * kStride; p += 3 * kStride, count -= 3 * kStride) {
    std::uint64_t a = crc, b = 0, c = 0;
    for (std::size_t i = 0; i < kStride; i += 8) {
      a = __builtin_ia32_crc32di(a, load<std::uint64_t>(p + i));
      b = __builtin_ia32_crc32di(b, load<std::uint64_t>(p + kStride + i));
      c = __builtin_ia32_crc32di(c, load<std::uint64_t>(p + 2 * kStride + i));
    }
    const auto ab = shifted(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    crc = shifted(ab) ^ static_cast<std::uint32_t>(c);
  }
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
