// What kernels are tried on, at all lengths and addresses.
#pragma once

#include <algorithm>
#include <limits>

#include "tests/support.h"

namespace laconic::testing {

inline constexpr float kMax = std::numeric_limits<float>::max();
inline constexpr float kLeast = std::numeric_limits<float>::denorm_min();

struct Input {
  const char* name;
  std::vector<float> values;
};

// What gradients look like, and what they should not look like.
inline std::vector<Input> inputs(std::size_t count) {
  std::mt19937_64 random(count);
  const auto each = [&](auto make) {
    std::vector<float> x(count);
    for (float& value : x) value = make();
    return x;
  };
  return {
      {"gaussian", gaussian(count)},
      {"all magnitudes", made_up(count)},
      {"constant", each([] { return -0.375F; })},
      {"ties", each([&] { return static_cast<float>(random() % 5) - 2; })},
      {"zeros", each([&] { return random() % 2 ? 0.0F : -0.0F; })},
      {"negative", each([&] { return -static_cast<float>(random() % 1000 + 1) / 128; })},
      {"spikes", each([&] { return random() % 500 ? 0.0F : static_cast<float>(random() % 7); })},
      {"subnormal",
       each([&] { return kLeast * static_cast<float>(random() % 999) - 400 * kLeast; })},
      {"huge",
       each([&] { return random() % 2 ? kMax : -kMax / static_cast<float>(1 + random() % 9); })},
  };
}

// Calls body(x) for all of them in all lengths, at addresses that no vector is aligned to. What has
// many cases for each leaves out the longest, where a debug build would take minutes.
template <class Body>
void for_inputs(Body body, std::size_t longest = kLengths.back()) {
  for (const std::size_t count : kLengths) {
    if (count > longest) continue;
    for (const Input& input : inputs(count)) {
      SCOPED_TRACE(std::string(input.name) + ", " + std::to_string(count));
      const std::size_t offset = 1 + count % 3;
      std::vector<float> moved(offset + count);
      std::ranges::copy(input.values, moved.begin() + static_cast<std::ptrdiff_t>(offset));
      body(std::span<const float>(moved).subspan(offset));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

inline std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU; }

}  // namespace laconic::testing
