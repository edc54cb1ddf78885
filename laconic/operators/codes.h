// Codes of 1 to 8 bits on their way into a plane and out of it: a byte each, in pieces that stay in
// the cache.
#pragma once

#include <algorithm>
#include <bit>

#include "laconic/kernels/split_bytes.h"
#include "laconic/operators/stage.h"

namespace laconic {

inline constexpr std::size_t kCodePiece = 4096;

// Codes that lie across bytes are for vectors.
inline void pack_piece(const std::uint8_t* some, std::size_t part, unsigned bits,
                       std::uint8_t* packed) {
  if (std::has_single_bit(bits)) return pack_bytes(some, part, bits, packed);
  kernels::close_bits(some, part, bits, packed);
}
inline void unpack_piece(const std::uint8_t* packed, std::size_t part, unsigned bits,
                         std::uint8_t* some) {
  if (std::has_single_bit(bits)) return unpack_bytes(packed, part, bits, some);
  kernels::open_bits(packed, part, bits, some);
}

// Packs, on all threads, what codes(from, part, bytes) puts into `part` bytes for the entries from
// `from` on.
template <class Codes>
void pack_codes(std::size_t count, unsigned bits, std::span<std::uint8_t> plane,
                StageScratch& scratch, Codes codes) {
  scratch.pool.each((count + kCodePiece - 1) / kCodePiece, [&](std::size_t piece, unsigned) {
    std::uint8_t some[kCodePiece];
    const std::size_t from = piece * kCodePiece, part = std::min(kCodePiece, count - from);
    codes(from, part, some);
    pack_piece(some, part, bits, plane.data() + from / 8 * bits);
  });
}

// Calls use(at, part, bytes) for every piece of the `count` entries from `from` on, whose codes
// begin a byte; `at` counts from there.
template <class Use>
void unpack_codes(std::size_t from, std::size_t count, unsigned bits, ByteView plane, Use use) {
  std::uint8_t some[kCodePiece];
  const std::uint8_t* codes = plane.data() + from * bits / 8;
  for (std::size_t at = 0; at < count; at += kCodePiece) {
    const std::size_t part = std::min(kCodePiece, count - at);
    unpack_piece(codes + at / 8 * bits, part, bits, some);
    use(at, part, some);
  }
}

}  // namespace laconic
