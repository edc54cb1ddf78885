// A stretch of what is encoded with feedback, for kernels that do all of it in one sweep: mixed,
// encoded, and what is left written while everything is in registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "laconic/kernels/stream.h"

namespace laconic::kernels {

// out[i] = a * x[i] + b * y[i], in float in this order; out may be x or y.
void mix(float a, const float* x, float b, const float* y, std::span<float> out);
// left[i] = c * (x[i] - decoded[i]); left may be x. If it streams, it is written past the cache
// (kernels/stream.h), and somebody calls end_stream.
void leave(float c, const float* x, const float* decoded, std::size_t count, bool streams,
           float* left);

// left[i] = c * (x[i] - what receivers decode).
struct Mixed {
  std::size_t count = 0;
  const float* fresh = nullptr;
  const float* kept = nullptr;
  float a = 1, b = 1, c = 1;
  float* left = nullptr;  // shares no entry with the others, unless each is the same there
  // Whether `left` is written past the cache: see kernels/stream.h. It then begins at a multiple of
  // 16 bytes, and somebody calls end_stream.
  bool streams = false;
  // What will be mixed after this, and is asked for from memory meanwhile. None: what follows.
  const float *next_fresh = nullptr, *next_kept = nullptr;

  // x[i] = a * fresh[i] + b * kept[i], in float in this order.
  void x(float* to) const { mix(a, fresh, b, kept, {to, count}); }

  // Writes x, as it came of that, to `left`, to be mixed no more.
  void keep(const float* x) const {
    if (streams)
      stream_on(x, count, left);
    else
      std::copy_n(x, count, left);
  }

  // The same block for the first of two passes over it, which leaves nothing, and for the second:
  // while that encodes, the block after it is asked for, because memory that rests meanwhile costs
  // as much as all the rest.
  Mixed looked_at() const {
    Mixed some = *this;
    some.left = nullptr;
    return some;
  }
  Mixed ahead() const {
    Mixed some = *this;
    some.next_fresh = fresh + count, some.next_kept = kept + count;
    return some;
  }

  // The same block once it is mixed: x as it stands at `mixed`. Adding 0 * x[i] changes no bit of
  // what is finite.
  Mixed again(const float* mixed) const {
    return {count, mixed, mixed, 1, 0, c, left, streams, mixed + count, mixed + count};
  }
  bool is_mixed() const { return fresh == kept && a == 1 && b == 0; }
  // Entries from..from + size of it, `from` a multiple of 4.
  Mixed part(std::size_t from, std::size_t size) const {
    Mixed some{size, fresh + from, kept + from, a, b, c, left + from, streams};
    if (next_fresh) some.next_fresh = next_fresh + from, some.next_kept = next_kept + from;
    return some;
  }
};

}  // namespace laconic::kernels
