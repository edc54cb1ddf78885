// Two generations of a number per entry of the model, as bytes with a step for every 64 entries of
// a tensor (kernels/rounded.h). How the model is cut in slices decides nothing: a group of 64 that
// a cut divides is rounded when all of its tensor has been written.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "laconic/base/array.h"
#include "laconic/kernels/floats.h"
#include "laconic/kernels/rounded.h"
#include "laconic/layout/places.h"

namespace laconic {

class ByteArrays {
 public:
  explicit ByteArrays(const Places& places);

  // Entries of a tensor in array `which`, to be read.
  Piece piece(std::size_t tensor, std::size_t from, std::size_t count, unsigned which) const;

  // Makes the tensor's entries from `from` on these values, rounded with draws from `own`. Groups
  // that are written in part wait for `close`, which is to be called when all of them is written.
  void write(std::size_t tensor, std::size_t from, std::span<const float> values, unsigned which,
             Key own);
  void close(std::size_t tensor, unsigned which);

 private:
  // A group that belongs to more than one slice.
  struct Shared {
    bool written = false;  // and not rounded yet
    Key own;
    float values[kernels::kRounded] = {};
  };

  void share(std::size_t tensor, std::size_t from, std::span<const float> values, Key own);
  void round(std::size_t tensor, std::size_t from, std::span<const float> values, unsigned which,
             Key own);
  std::size_t groups_end(std::size_t tensor) const { return groups_[tensor + 1]; }

  Places places_;
  std::vector<std::size_t> groups_ = {0};  // by tensor: how many there are before it
  mutable Array<std::int8_t> codes_[2];
  Array<std::uint8_t> exponents_[2];
  std::map<std::size_t, Shared> shared_;  // by group; those that have been stay
};

}  // namespace laconic
