// Randomness as a value: the i-th draw of a key is a function of the key and i alone, so any order,
// any thread and any vector lane gives the same draw.
#pragma once

#include <cstdint>

namespace laconic {

class Key {
 public:
  explicit constexpr Key(std::uint64_t seed = 0) : state_(mix(seed + kGolden)) {}

  // A key whose draws are independent of this one's and of those forked with another number.
  constexpr Key fork(std::uint64_t what) const {
    Key child;
    child.state_ = mix(state_ + mix(what + kGolden));
    return child;
  }

  // 64 random bits for draw i (splitmix64 over key and counter).
  constexpr std::uint64_t bits(std::uint64_t i) const {
    return mix(state_ ^ mix(i * kGolden + kDraw));
  }

  // 32 random bits for draw i. Cheap on vector lanes (two 32-bit multiplies): the kernels repeat
  // exactly this.
  constexpr std::uint32_t bits32(std::uint64_t i) const {
    const Key high = fork(i >> 32);
    return mix32(static_cast<std::uint32_t>(i), high.word0(), high.word1());
  }

  // The two words a vector kernel needs for draws whose upper half is already forked in: see
  // bits32.
  constexpr std::uint32_t word0() const { return static_cast<std::uint32_t>(state_); }
  constexpr std::uint32_t word1() const { return static_cast<std::uint32_t>(state_ >> 32); }

  static constexpr std::uint32_t kMultiply0 = 0x7feb352dU;
  static constexpr std::uint32_t kMultiply1 = 0x846ca68bU;

  static constexpr std::uint32_t mix32(std::uint32_t i, std::uint32_t word0, std::uint32_t word1) {
    std::uint32_t h = i + word0;
    h = (h ^ (h >> 16)) * kMultiply0;
    h ^= word1;
    h = (h ^ (h >> 15)) * kMultiply1;
    return h ^ (h >> 16);
  }

  friend constexpr bool operator==(Key, Key) = default;

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  static constexpr std::uint64_t kDraw = 0xd1b54a32d192ed03ULL;  // a draw's number is never a seed

  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  std::uint64_t state_ = 0;
};

// What an operator may draw from, and where its slice begins in the whole model: draws are made at
// the entry's position in the model, so cutting the model in other slices draws the same numbers.
struct Keys {
  Key common;               // the same on every rank: positions that ranks must share
  Key own;                  // this rank's own: rounding
  std::uint64_t first = 0;  // position of the slice's first entry in the model

  constexpr Keys at(std::uint64_t position) const { return {common, own, position}; }
};

constexpr Keys make_keys(std::uint64_t seed, std::uint64_t step, std::uint64_t rank) {
  const Key key = Key(seed).fork(step);
  return {key.fork(0), key.fork(1).fork(rank), 0};
}

}  // namespace laconic
