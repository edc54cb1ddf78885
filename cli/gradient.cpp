// Normal numbers by the method of Box and Muller, two from each draw, and inputs made of them.
#include "cli/gradient.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace laconic::cli {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;  // entries one thread makes at a time; even
constexpr float kDeviation = 0.01F;

void fill_pair(Key key, std::size_t i, std::vector<float>& values) {
  const std::uint64_t draw = key.bits(i);
  // 32 bits each; the first never 0, whose logarithm is not finite.
  const float u = (static_cast<float>(draw >> 32) + 0.5F) * 0x1p-32F;
  const float angle =
      static_cast<float>(draw & 0xffffffffU) * 0x1p-32F * 2 * std::numbers::pi_v<float>;
  const float radius = kDeviation * std::sqrt(-2 * std::log(u));
  values[i] = radius * std::cos(angle);
  if (i + 1 < values.size()) values[i + 1] = radius * std::sin(angle);
}

}  // namespace

std::vector<float> made_up_gradient(std::size_t count, Pool& pool, Key key) {
  std::vector<float> values(count);
  pool.each((count + kPiece - 1) / kPiece, [&](std::size_t piece, unsigned) {
    const std::size_t end = std::min((piece + 1) * kPiece, count);
    for (std::size_t i = piece * kPiece; i < end; i += 2) fill_pair(key, i, values);
  });
  return values;
}

const std::vector<std::string>& input_names() {
  static const std::vector<std::string> names = {"normal", "equal",    "zeros", "sorted",
                                                 "spike",  "denormal", "mixed"};
  return names;
}

std::vector<float> made_up_input(const std::string& name, std::size_t count, Pool& pool) {
  if (name == "equal") return std::vector<float>(count, kDeviation);
  std::vector<float> x = made_up_gradient(count, pool);
  if (name == "zeros")
    for (std::size_t i = 0; i < count; ++i) x[i] = i % 1000 == 500 ? x[i] : 0;
  if (name == "sorted") std::ranges::sort(x);
  if (name == "spike" && count > 0) x[count / 2] = 1e30F;
  if (name == "denormal")
    for (float& value : x) value *= 1e-38F;
  if (name == "mixed")
    for (std::size_t i = 0; i < count; ++i)
      x[i] = std::ldexp(x[i], 50 * (static_cast<int>(i % 5) - 2));
  return x;
}

}  // namespace laconic::cli
