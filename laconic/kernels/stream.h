// Past the cache, for large arrays that nobody reads soon, and into it, for what is read next.
#pragma once

#include <cstddef>

namespace laconic::kernels {

// Entries from which an array is written past the cache: 1 MiB. An ordinary store reads the line
// first, which a larger array pays with a whole pass.
inline constexpr std::size_t kStreamed = std::size_t{1} << 18;

// to[i] = from[i]. Everything is written when it returns, as seen by every thread.
void stream(const float* from, std::size_t count, float* to);

// The same of which the last is seen after end_stream: to wait for it after each of many small
// arrays would take an eighth of a memcpy.
void stream_on(const float* from, std::size_t count, float* to);

// After this, what this thread has written past the cache is seen by every thread.
void end_stream();

// Asks for the line that `data` points into; it may point anywhere.
inline void fetch(const void* data) {
#if defined(__GNUC__)
  __builtin_prefetch(data);
#endif
}

// The same into the second-level cache only, for what is read in order: asked into the first level
// a sweep that only reads takes a quarter longer than without asking at all.
inline void fetch_ahead(const void* data) {
#if defined(__GNUC__)
  __builtin_prefetch(data, 0, 2);
#endif
}

}  // namespace laconic::kernels
