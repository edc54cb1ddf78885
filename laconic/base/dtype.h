// The types an array's elements may have outside. Inside everything is float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace laconic {

// The numbers are those of docs/frame.md and laconic_c.h.
enum class Dtype : std::uint8_t { float32 = 0, float16 = 1, float64 = 2, bfloat16 = 3 };

inline constexpr std::size_t kDtypes = 4;

constexpr std::string_view dtype_name(Dtype dtype) {
  constexpr std::string_view kNames[kDtypes] = {"float32", "float16", "float64", "bfloat16"};
  return kNames[static_cast<std::size_t>(dtype)];
}

// Bytes of one element.
constexpr std::size_t dtype_size(Dtype dtype) {
  constexpr std::size_t kSizes[kDtypes] = {4, 2, 8, 2};
  return kSizes[static_cast<std::size_t>(dtype)];
}

}  // namespace laconic
