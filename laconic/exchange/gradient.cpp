// Slices over the host's arrays.
#include "laconic/exchange/gradient.h"

namespace laconic {
namespace {

std::uint8_t* entry(const Piece& piece, std::size_t at) {
  return static_cast<std::uint8_t*>(piece.data) + dtype_size(piece.dtype) * at;
}

}  // namespace

bool Gradient::rests(const Slice& slice) const {
  bool all = slice.count > 0;
  places_.each(slice, [&](std::size_t tensor, std::size_t, std::size_t) { all &= rests(tensor); });
  return all;
}

Floats Gradient::floats(const Slice& slice) const {
  pieces_.clear();
  places_.each(slice, [&](std::size_t tensor, std::size_t from, std::size_t count) {
    const Piece& array = arrays_[tensor];
    const Piece next{count, entry(array, from), array.dtype};
    if (!pieces_.empty() && pieces_.back().dtype == next.dtype &&
        entry(pieces_.back(), pieces_.back().count) == next.data)
      pieces_.back().count += count;
    else
      pieces_.push_back(next);
  });
  return Floats(std::span<const Piece>(pieces_));
}

}  // namespace laconic
