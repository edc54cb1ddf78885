// Blocks of what is to be encoded.
#include "laconic/operators/source.h"

#include <string>

#include "laconic/base/errors.h"
#include "laconic/kernels/axpy.h"

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

void Source::require_sizes() const {
  for (const Floats* other : {&kept, &left})
    if (!other->empty() && other->size() != fresh.size())
      throw UsageError("a source of " + std::to_string(fresh.size()) + " entries beside " +
                       std::to_string(other->size()) + "; allowed: as many, or none");
}

}  // namespace laconic
