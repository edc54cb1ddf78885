// Codes of 1 to 8 bits on their way into a plane and out of it: a byte each, in pieces that stay in
// the cache, on all threads.
#pragma once

#include <algorithm>

#include "laconic/operators/stage.h"

namespace laconic {

inline constexpr std::size_t kCodePiece = 4096;

// Packs what codes(from, part, bytes) puts into `part` bytes for the entries from `from` on.
template <class Codes>
void pack_codes(std::size_t count, unsigned bits, std::span<std::uint8_t> plane,
                StageScratch& scratch, Codes codes) {
  scratch.pool.each((count + kCodePiece - 1) / kCodePiece, [&](std::size_t piece, unsigned) {
    std::uint8_t some[kCodePiece];
    const std::size_t from = piece * kCodePiece, part = std::min(kCodePiece, count - from);
    codes(from, part, some);
    pack_bytes(some, part, bits, plane.data() + from / 8 * bits);
  });
}

// Calls use(from, part, bytes) for every piece.
template <class Use>
void unpack_codes(std::size_t count, unsigned bits, ByteView plane, StageScratch& scratch,
                  Use use) {
  scratch.pool.each((count + kCodePiece - 1) / kCodePiece, [&](std::size_t piece, unsigned) {
    std::uint8_t some[kCodePiece];
    const std::size_t from = piece * kCodePiece, part = std::min(kCodePiece, count - from);
    unpack_bytes(plane.data() + from / 8 * bits, part, bits, some);
    use(from, part, some);
  });
}

}  // namespace laconic
