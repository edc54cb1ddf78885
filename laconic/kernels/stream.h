// Writing past the cache: for large arrays that nobody reads soon.
#pragma once

#include <cstddef>

namespace laconic::kernels {

// Entries from which an array is written past the cache: 1 MiB. An ordinary store reads the line
// first, which a larger array pays with a whole pass.
inline constexpr std::size_t kStreamed = std::size_t{1} << 18;

// to[i] = from[i]. Everything is written when it returns, as seen by every thread.
void stream(const float* from, std::size_t count, float* to);

}  // namespace laconic::kernels
