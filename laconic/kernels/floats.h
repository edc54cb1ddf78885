// Floats of one slice, wherever they lie: in one array or several, float32, bfloat16 or float16, or
// as bytes that may be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "laconic/base/dtype.h"

namespace laconic {

// Entries that kernels see at a time, as contiguous float32: 16 KB, half of a first-level cache.
inline constexpr std::size_t kBlock = 4096;

// One array. float64 is not taken.
struct Piece {
  std::size_t count = 0;
  void* data = nullptr;
  Dtype dtype = Dtype::float32;
  // Of bytes (kernels/rounded.h), which are only read: the exponent of the first one's group, in
  // which it has the number `inside`.
  const std::uint8_t* exponents = nullptr;
  std::size_t inside = 0;
};

// A view: what it shows must outlive it, and so must the list of pieces. Cheap to copy.
class Floats {
 public:
  Floats() = default;
  Floats(std::span<float> x) : one_{x.size(), x.data()}, size_(x.size()) {}
  Floats(std::span<const float> x);  // to be read only
  Floats(std::span<const Piece> pieces);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // The array, if all entries are one array of float32; else null.
  float* array() const;

  // Entries from..from+count as contiguous float32: where they lie, if they lie so, else copied or
  // converted into `buffer`.
  const float* load(std::size_t from, std::size_t count, float* buffer) const;

  // Where these entries may be written: the array itself, or `buffer`, to be stored afterwards.
  float* place(std::size_t from, std::size_t count, float* buffer) const;

  // Writes the values, rounded to the nearest (ties to even) where entries have 16 bits: beyond the
  // largest finite value to Inf, NaN to NaN. Nothing is done when they are there already.
  void store(std::size_t from, std::size_t count, const float* values) const;

  // values[j] becomes the entry at positions[j], for ascending positions.
  void scatter(std::span<const std::uint32_t> positions, const float* values) const;

 private:
  std::span<const Piece> pieces() const { return many_.empty() ? std::span(&one_, 1) : many_; }
  template <class Use>
  void each(std::size_t from, std::size_t count, Use use) const;

  Piece one_;
  std::span<const Piece> many_;  // empty: just the one
  std::size_t size_ = 0;
};

}  // namespace laconic
