// Blocks of what is to be encoded.
#include "laconic/operators/source.h"

#include <cstdint>
#include <string>

#include "laconic/base/errors.h"
#include "laconic/kernels/axpy.h"
#include "laconic/kernels/stream.h"

namespace laconic {

const float* Source::as_it_lies() const {
  return a == 1 && !takes_kept() ? fresh.array() : nullptr;
}

const float* Source::load(std::size_t from, std::size_t count, float* buffer) const {
  const float* x = fresh.load(from, count, buffer);
  if (takes_kept()) {
    float other[kBlock];
    kernels::mix(a, x, b, kept.load(from, count, other), {buffer, count});
    return buffer;
  }
  if (a == 1) return x;
  kernels::scale(a, x, {buffer, count});
  return buffer;
}

void Source::open(std::size_t from, std::size_t count, MixedBlock& block) const {
  float* array = left.array();
  const bool large = array && left.size() >= kernels::kStreamed;
  const bool streams = large && reinterpret_cast<std::uintptr_t>(array + from) % 16 == 0;
  block.mixed = {.count = count,
                 .fresh = fresh.load(from, count, block.fresh),
                 .kept = kept.load(from, count, block.kept),
                 .a = a,
                 .b = b,
                 .c = c,
                 .left = streams ? array + from
                         : large ? block.left
                                 : left.place(from, count, block.left),
                 .streams = streams};
}

void Source::close(std::size_t from, const MixedBlock& block) const {
  const kernels::Mixed& mixed = block.mixed;
  if (mixed.streams) return;
  if (float* array = left.array(); array && mixed.left == block.left)
    kernels::stream_on(mixed.left, mixed.count, array + from);
  else
    left.store(from, mixed.count, mixed.left);
}

void Source::require_sizes() const {
  for (const Floats* other : {&kept, &left})
    if (!other->empty() && other->size() != fresh.size())
      throw UsageError("a source of " + std::to_string(fresh.size()) + " entries beside " +
                       std::to_string(other->size()) + "; allowed: as many, or none");
}

}  // namespace laconic
