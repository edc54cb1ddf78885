// Slices over the host's arrays.
#include "laconic/exchange/gradient.h"

#include <algorithm>

namespace laconic {
namespace {

std::uint8_t* entry(const Piece& piece, std::size_t at) {
  return static_cast<std::uint8_t*>(piece.data) + dtype_size(piece.dtype) * at;
}

// Ends soon after the first entry that is something, and NaN is something.
template <class Bits>
bool all_zero(const void* data, std::size_t count) {
  constexpr std::size_t kRun = 64;
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  const auto* bits = static_cast<const Bits*>(data);
  for (std::size_t from = 0; from < count; from += kRun) {
    Bits any = 0;
    for (std::size_t i = from; i < std::min(count, from + kRun); ++i) any |= bits[i];
    if ((any & kMagnitude) != 0) return false;
  }
  return true;
}

bool all_zero(const Piece& piece) {
  return dtype_size(piece.dtype) == 4 ? all_zero<std::uint32_t>(piece.data, piece.count)
                                      : all_zero<std::uint16_t>(piece.data, piece.count);
}

}  // namespace

void Gradient::look(const Slice& slice) {
  places_.each(slice, [&](std::size_t tensor, std::size_t, std::size_t) {
    if (state_[tensor] == State::there)
      state_[tensor] = all_zero(arrays_[tensor]) ? State::rests : State::sends;
  });
}

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
