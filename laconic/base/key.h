// Randomness as a value: the i-th draw of a key is a function of the key and i alone, so any order,
// any thread and any vector lane gives the same draw.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>

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

  // What `bits` is made of, for kernels that repeat it.
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  static constexpr std::uint64_t kDraw = 0xd1b54a32d192ed03ULL;  // a draw's number is never a seed
  static constexpr std::uint64_t kMix0 = 0xbf58476d1ce4e5b9ULL;
  static constexpr std::uint64_t kMix1 = 0x94d049bb133111ebULL;

  static constexpr std::uint32_t mix32(std::uint32_t i, std::uint32_t word0, std::uint32_t word1) {
    std::uint32_t h = i + word0;
    h = (h ^ (h >> 16)) * kMultiply0;
    h ^= word1;
    h = (h ^ (h >> 15)) * kMultiply1;
    return h ^ (h >> 16);
  }

  friend constexpr bool operator==(Key, Key) = default;

 private:
  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * kMix0;
    z = (z ^ (z >> 27)) * kMix1;
    return z ^ (z >> 31);
  }

  std::uint64_t state_ = 0;
};

// Draws of n ranks that share their luck (Suresh et al., arXiv 2203.04925): at every position each
// rank's draw lies in a stratum of its own, one of n equal parts of 0..2^32. Which one is a
// function of the common key and the position, where in it the rank's own draw. A rank's draws are
// uniform as ever, while the errors of ranks that hold much the same cancel.
class Strata {
 public:
  static constexpr std::size_t kOrders = 4;

  constexpr Strata() = default;
  // Rank i is in stratum (a i + b) mod n: b is drawn at each position, and so is a, from a few
  // numbers without a divisor in common with n: whatever the pair of ranks, their strata are now
  // near and now far.
  constexpr Strata(Key common, std::uint64_t rank, std::uint64_t ranks)
      : common_(common),
        ranks_(static_cast<std::uint32_t>(ranks)),
        width_(static_cast<std::uint32_t>((std::uint64_t{1} << 32) / ranks)) {
    std::uint64_t draw = 0;
    for (std::uint32_t& place : places_) {
      std::uint64_t a = 1;
      do a = common.fork(0).bits(draw++) % ranks;
      while (std::gcd(a, ranks) != 1);
      place = static_cast<std::uint32_t>(a * rank % ranks);
    }
  }

  constexpr bool any() const { return ranks_ > 1; }

  // The rank's own 32 random bits at position i, moved into its stratum.
  constexpr std::uint32_t move(std::uint32_t own, std::uint64_t i) const {
    const std::uint32_t draw = common_.bits32(i);
    std::uint32_t stratum = high(draw, ranks_) + places_[draw % kOrders];
    if (stratum >= ranks_) stratum -= ranks_;
    return stratum * width_ + high(own, width_);
  }

  // What a vector kernel needs: as Key::word0 and word1.
  constexpr Strata fork(std::uint64_t what) const {
    Strata child = *this;
    child.common_ = common_.fork(what);
    return child;
  }
  constexpr Key common() const { return common_; }
  constexpr std::uint32_t ranks() const { return ranks_; }
  constexpr std::uint32_t width() const { return width_; }
  constexpr const std::array<std::uint32_t, kOrders>& places() const { return places_; }

 private:
  static constexpr std::uint32_t high(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(a) * b >> 32);
  }

  Key common_;
  std::uint32_t ranks_ = 1, width_ = 0;
  std::array<std::uint32_t, kOrders> places_ = {};
};

// What rounding draws from: a key, and the rank's strata if there are any. With strata a negative
// entry takes the complement of its draw, so that what a large draw makes larger is the entry and
// not its magnitude: else the errors of entries of opposite signs would add up.
class Draws {
 public:
  constexpr Draws(Key own, const Strata& strata = {}) : own_(own), strata_(strata) {}

  constexpr Key own() const { return own_; }
  constexpr const Strata& strata() const { return strata_; }
  constexpr bool stratified() const { return strata_.any(); }

  // 32 random bits at position i, for an entry of this sign. Strata order them by their upper bits.
  constexpr std::uint32_t bits32(std::uint64_t i, bool negative = false) const {
    const std::uint32_t own = own_.bits32(i);
    if (!stratified()) return own;
    const std::uint32_t moved = strata_.move(own, i);
    return negative ? ~moved : moved;
  }
  // So many of such bits: the upper ones with strata, else the lower ones.
  constexpr std::uint32_t some(std::uint32_t bits, unsigned count) const {
    return stratified() ? bits >> (32 - count) : bits & ((1U << count) - 1);
  }

  // For positions whose upper half is this: as in Key::bits32.
  constexpr Draws fork(std::uint64_t high) const { return {own_.fork(high), strata_.fork(high)}; }

 private:
  Key own_;
  Strata strata_;
};

// What an operator may draw from, and where its slice begins in the whole model: draws are made at
// the entry's position in the model, so cutting the model in other slices draws the same numbers.
struct Keys {
  Key common;               // the same on every rank: positions that ranks must share
  Key own;                  // this rank's own: rounding
  std::uint64_t first = 0;  // position of the slice's first entry in the model
  Strata strata = {};       // of rounding, among the ranks whose mean will be taken

  constexpr Keys at(std::uint64_t position) const { return {common, own, position, strata}; }
  constexpr Draws draws() const { return {own, strata}; }
};

// With `ranks` above 1 rounding draws from strata among so many.
constexpr Keys make_keys(std::uint64_t seed, std::uint64_t step, std::uint64_t rank,
                         std::uint64_t ranks = 1) {
  const Key key = Key(seed).fork(step);
  const Strata strata = ranks > 1 ? Strata(key.fork(2), rank, ranks) : Strata();
  return {key.fork(0), key.fork(1).fork(rank), 0, strata};
}

}  // namespace laconic
