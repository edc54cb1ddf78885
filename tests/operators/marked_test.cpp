// Selectors that keep many entries, against plain twins: the bytes of their sections, which are
// written from marks, are those that lists of positions make.
#include <algorithm>
#include <numeric>

#include "laconic/codecs/index.h"
#include "laconic/codecs/marks.h"
#include "laconic/codecs/varint.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Values = std::vector<float>;
using Chosen = std::vector<std::uint32_t>;

struct Input {
  std::string name;
  Values x;
};

std::vector<Input> inputs(std::size_t count) {
  Values gaps = gaussian(count, 1), lone = gaps, skewed = gaps, tied = gaps, zeros = gaps;
  for (std::size_t i = 0; i < count; ++i) {
    if (i / 50 % 9 == 3) gaps[i] = 0;                   // gaps that escape
    if (i / 30 % 5 == 3 && i < count / 4) lone[i] = 0;  // fewer of them
    skewed[i] = skewed[i] + 0.7F;
    tied[i] = (i % 3 == 0 ? -0.25F : 0.25F) * static_cast<float>(1 + i % 4);
    if (i % 4 > 0) zeros[i] = 0;
  }
  Values block = zeros;
  std::fill(block.begin() + static_cast<long>(count / 4), block.end(), 0.5F);  // clustered
  return {{"gaussian", gaussian(count, 1)},
          {"gaps", gaps},
          {"few gaps", lone},
          {"skewed", skewed},
          {"ties", tied},
          {"zeros", zeros},
          {"a block", block},
          {"all equal", Values(count, -0.7F)},
          {"magnitudes", made_up(count)}};
}

template <class Key>
Chosen largest(std::span<const float> x, std::size_t k, Key key) {
  Chosen order(x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::erase_if(order, [&](std::uint32_t i) { return !(key(x[i]) > 0); });
  std::ranges::stable_sort(order, [&](auto a, auto b) { return key(x[a]) > key(x[b]); });
  order.resize(std::min(k, order.size()));
  std::ranges::sort(order);
  return order;
}

// A section up to its values, from a list.
Buffer head(const Chosen& chosen, std::size_t number, std::size_t count) {
  Buffer out;
  const IndexSpace space{.count = count};
  const IndexCodec& codec = smallest_index(chosen, space);
  put_varint(number << kIndexTagBits | codec.tag, out);
  codec.write(chosen, space, out);
  return out;
}

Chosen not_below(std::span<const float> x, float least) {
  return largest(x, x.size(), [&](float v) { return std::abs(v) >= least ? std::abs(v) : 0; });
}

TEST(Marked, ASectionIsThatOfAList) {
  for (const std::size_t count : {16384, 20001, 70000})
    for (const auto& [name, x] : inputs(count)) {
      SCOPED_TRACE(name + ", " + std::to_string(count));
      const auto expect = [&x = x](const std::string& spec, const Chosen& chosen,
                                   std::size_t number) {
        Buffer expected = head(chosen, number, x.size());
        for (const std::uint32_t i : chosen) expected.append_number(x[i]);
        for (const unsigned threads : {1U, 3U})
          EXPECT_TRUE(std::ranges::equal(
              encode(parse_operator(spec), x, make_keys(1, 2, 3), threads), expected.view()))
              << spec;
      };
      const Chosen nonzero = not_below(x, 0);
      expect("topk:1", nonzero, count - nonzero.size());
      for (const char* least : {"1e-06", "0.1", "0.5", "1"}) {
        const Chosen chosen = not_below(x, std::stof(least));
        expect("threshold:" + std::string(least), chosen, chosen.size());
      }
      float most = 0;
      for (const float value : x) most = std::max(most, std::abs(value));
      for (const int factor : {1, 4, 16}) {
        const Chosen chosen = not_below(x, most / static_cast<float>(factor));
        expect("adaptive:" + std::to_string(factor), chosen, chosen.size());
      }
    }
}

TEST(Marked, OneSideAsItsMeanIsThatOfAList) {
  for (const std::size_t count : {16384, 20001, 70000})
    for (const auto& [name, x] : inputs(count))
      for (const std::size_t p : {20, 30, 50, 90, 100}) {
        SCOPED_TRACE(name + ", " + std::to_string(count) + ", " + std::to_string(p));
        const std::size_t k = (count * p + 99) / 100;
        const auto mean = [&x = x](const Chosen& chosen) {
          double sum = 0;
          for (const std::uint32_t i : chosen) sum += static_cast<double>(x[i]);
          return chosen.empty() ? 0 : sum / static_cast<double>(chosen.size());
        };
        const Chosen above = largest(x, k, [](float v) { return v; });
        const Chosen below = largest(x, k, [](float v) { return -v; });
        const Chosen& chosen = mean(above) >= -mean(below) ? above : below;
        Buffer expected = head(chosen, k - chosen.size(), count);
        expected.append_number(static_cast<float>(mean(chosen)));
        const auto section =
            encode(parse_operator("sbc:" + std::to_string(static_cast<double>(p) / 100)), x);
        EXPECT_TRUE(std::ranges::equal(section, expected.view()));
      }
}

TEST(Marked, TheSmallestCodeOfMarksIsThatOfTheirPositions) {
  std::mt19937_64 random(3);
  std::size_t told = 0;
  for (const std::size_t count : {4096, 5001, 30000, 60001})
    for (const unsigned percent : {1, 21, 22, 25, 32, 38, 39, 45, 60, 90, 100})
      for (const std::size_t gap : {0, 20, 24, 47, 48, 49, 64, 130, 700})
        for (const bool at_ends : {false, true}) {
          SCOPED_TRACE(std::to_string(count) + ", " + std::to_string(percent) + " %, gap " +
                       std::to_string(gap));
          std::vector<std::uint64_t> marks((count + 63) / 64);
          Chosen positions;
          for (std::uint32_t i = 0; i < count; ++i) {
            if (random() % 100 >= percent) continue;
            if (i > 1000 && i <= 1000 + gap) continue;
            if (at_ends && (i < gap || i + gap >= count)) continue;
            marks[i / 64] |= std::uint64_t{1} << i % 64;
            positions.push_back(i);
          }
          const auto code = smallest_of_marks(marks, positions.size(), count);
          if (!code) continue;
          ++told;
          const IndexSpace space{.count = count};
          const IndexCodec& codec = smallest_index(positions, space);
          ASSERT_EQ(code->tag, codec.tag);
          Buffer out, expected;
          put_marked(*code, marks, out);
          codec.write(positions, space, expected);
          ASSERT_TRUE(std::ranges::equal(out.view(), expected.view()));
        }
  EXPECT_GT(told, 500U);
}

}  // namespace
}  // namespace laconic::testing
