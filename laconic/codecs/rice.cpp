// The parameter of Rice codes, by a table of densities.
#include "laconic/codecs/rice.h"

#include <array>

namespace laconic {
namespace {

// Entry b - 1: the largest density at which b low bits are best, 1 - (phi - 1)^(2^(1 - b)), as a
// fraction of 2^64, rounded down. The formula's logarithms may differ in their last bit from one
// machine to another, and then so would bytes.
constexpr std::array<std::uint64_t, 31> kDensest = {
    0x61c8864680b583eaULL, 0x36bec886d3972739ULL, 0x1d046394e9ff6cb8ULL, 0x0ef1de33523e0e02ULL,
    0x0795b2c1be81723eULL, 0x03d226145bdcb0acULL, 0x01eae9bbfa6f8dcfULL, 0x00f5eafbcc0ab17aULL,
    0x007b13139122089cULL, 0x003d90f0fb04d312ULL, 0x001eca528320f029ULL, 0x000f659fca190c26ULL,
    0x0007b2ed8812d566ULL, 0x0003d97e2ce78492ULL, 0x0001ecc0f0aed98eULL, 0x0000f660eee6a4b2ULL,
    0x00007b3095172e97ULL, 0x00003d9851f49023ULL, 0x00001ecc2ad48680ULL, 0x00000f6615e0d2e3ULL,
    0x000007b30b0e0d5bULL, 0x000003d9858e6fa8ULL, 0x000001ecc2c91212ULL, 0x000000f66164ff99ULL,
    0x0000007b30b29d70ULL, 0x0000003d98595621ULL, 0x0000001ecc2caceaULL, 0x0000000f661656ebULL,
    0x00000007b30b2b93ULL, 0x00000003d98595d1ULL, 0x00000001ecc2caeaULL,
};

}  // namespace

unsigned rice_bits(std::size_t kept, std::size_t count) {
  __extension__ using Wide = unsigned __int128;
  unsigned bits = 0;
  // kept * 2^64 <= kDensest * count, which is to compare kept with the product's upper half.
  while (bits < kDensest.size() && static_cast<Wide>(kDensest[bits]) * count >> 64 >= kept) ++bits;
  return bits;
}

}  // namespace laconic
