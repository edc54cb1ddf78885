// What several tests need: arrays with known properties, and operators applied in one call.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "laconic/kernels/cpu.h"
#include "laconic/laconic.h"

namespace laconic::testing {

inline const std::vector<std::size_t> kLengths = {0,  1,  2,  3,   7,    8,    9,    15,   16,   17,
                                                  63, 64, 65, 127, 4095, 4096, 4097, 8191, 65537};

// Entries with all magnitudes from 2^-40 to 2^3 and a few zeros: what gradients look like, and
// worse.
inline std::vector<float> made_up(std::size_t count, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-40, 3);
  std::vector<float> x(count);
  for (float& value : x)
    value = random() % 37 == 0 ? 0.0F : normal(random) * std::exp2(exponent(random));
  return x;
}

inline std::vector<float> gaussian(std::size_t count, float scale = 0.01F, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(count);
  for (float& value : x) value = normal(random);
  return x;
}

inline double squared(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return sum;
}

inline double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return sum;
}

inline std::vector<std::uint8_t> encode(const Operator& op, std::span<const float> x,
                                        const Keys& keys = make_keys(1, 2, 3),
                                        unsigned threads = 1) {
  Scratch scratch(threads);
  Buffer out;
  EXPECT_TRUE(op.encode(x, out, keys, scratch)) << op.spec();
  return {out.view().begin(), out.view().end()};
}

inline std::vector<float> decode(const Operator& op, ByteView section, std::size_t count,
                                 const Keys& keys = make_keys(1, 2, 3), unsigned threads = 1) {
  Scratch scratch(threads);
  std::vector<float> y(count);
  op.add(section, 1, y, keys, scratch);
  return y;
}

inline std::vector<float> through(const Operator& op, std::span<const float> x,
                                  const Keys& keys = make_keys(1, 2, 3)) {
  return decode(op, encode(op, x, keys), x.size(), keys);
}

// A spec as the name of a test.
inline std::string name_of_spec(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

// Runs the body once per instruction set of this machine, then goes back to the best.
template <class Body>
void on_every_cpu(Body body) {
  for (const std::string& target : cpu_targets()) {
    SCOPED_TRACE("on " + target);
    use_cpu(target);
    body(target);
  }
  use_cpu("auto");
}

// The message of the Error of type E that the call throws.
template <class E, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace laconic::testing
