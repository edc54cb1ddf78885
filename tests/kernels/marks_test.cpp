// Entries that are marked, against plain twins on every instruction set.
#include "laconic/kernels/marks.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

std::vector<std::uint64_t> random_marks(std::size_t count, unsigned of_eight) {
  std::mt19937_64 random(count + of_eight);
  std::vector<std::uint64_t> marks((count + 63) / 64);
  for (std::uint64_t& word : marks)
    for (unsigned i = 0; i < 64; ++i) word |= std::uint64_t{random() % 8 < of_eight} << i;
  return marks;
}

TEST(Marks, ValuesAreAddedWhereTheyAre) {
  for (const std::size_t count : {1, 7, 63, 64, 65, 130, 1000, 4096})
    for (const unsigned of_eight : {0, 1, 4, 7, 8}) {
      const auto marks = random_marks(count, of_eight);  // beyond the end, too
      const std::vector<float> values = made_up(count), before = gaussian(count);
      std::vector<float> plain = before, room = values;
      std::size_t next = 0;
      for (std::size_t i = 0; i < count; ++i)
        if (marks[i / 64] >> i % 64 & 1) plain[i] += 0.3F * values[next++];
      room.resize(next);
      room.resize(next + kernels::kSpareValues, NAN);
      on_every_cpu([&](const std::string& cpu) {
        SCOPED_TRACE(cpu + ", " + std::to_string(count));
        std::vector<float> y = before;
        y.push_back(5);
        kernels::add_marked(marks.data(), room.data(), 0.3F, std::span(y).first(count));
        EXPECT_EQ(y.back(), 5);
        y.pop_back();
        EXPECT_EQ(std::memcmp(y.data(), plain.data(), count * sizeof(float)), 0);
      });
    }
}

TEST(Marks, AreCounted) {
  for (const std::size_t count : {0, 64, 640}) {
    const auto marks = random_marks(count, 3);
    std::size_t number = 0;
    for (std::size_t i = 0; i < count; ++i) number += marks[i / 64] >> i % 64 & 1;
    on_every_cpu([&](const std::string&) { EXPECT_EQ(kernels::count_marks(marks), number); });
  }
}

TEST(Marks, AreMadeOfZerosUpToTheLast) {
  for (const std::size_t count : {1, 8, 63, 64, 65, 200, 1000})
    for (const unsigned of_eight : {0, 1, 5, 8})
      for (const unsigned run : {3, 24, 63}) {
        auto ones = random_marks(count, of_eight);
        const std::span bits(reinterpret_cast<const std::uint8_t*>(ones.data()), (count + 7) / 8);
        std::vector<std::size_t> zeros;
        for (std::size_t i = 0; i < 8 * bits.size(); ++i)
          if (!(ones[i / 64] >> i % 64 & 1)) zeros.push_back(i);
        for (const std::size_t kept : {std::size_t{1}, zeros.size() / 2, zeros.size(), count}) {
          if (kept == 0) continue;
          std::size_t expected = kept <= zeros.size() ? zeros[kept - 1] + 1 : 0, length = 0;
          for (std::size_t i = 0; i < expected; ++i) {
            length = ones[i / 64] >> i % 64 & 1 ? length + 1 : 0;
            if (length >= run) expected = 0;
          }
          if (expected > count) expected = 0;
          on_every_cpu([&](const std::string& cpu) {
            SCOPED_TRACE(cpu + ", " + std::to_string(kept) + " of " + std::to_string(count));
            std::vector<std::uint64_t> marks(ones.size(), 77);
            ASSERT_EQ(kernels::marks_of_zeros(bits, count, kept, run, marks.data()), expected);
            for (std::size_t i = 0; expected > 0 && i < 64 * marks.size(); ++i)
              ASSERT_EQ(marks[i / 64] >> i % 64 & 1,
                        i < expected && !(ones[i / 64] >> i % 64 & 1) ? 1U : 0U);
          });
        }
      }
}

TEST(Marks, TellTheirGaps) {
  for (const std::size_t count : {1, 64, 65, 1000, 6400})
    for (const unsigned of_eight : {0, 1, 3, 8})
      for (const unsigned run : {2, 24, 48, 63})
        for (const std::size_t hole : {0, 24, 70, 300}) {
          auto marks = random_marks(count, of_eight);
          for (std::size_t i = 0; i < 64 * marks.size(); ++i)
            if (i >= count || (i >= 100 && i < 100 + hole)) marks[i / 64] &= ~(1ULL << i % 64);
          kernels::MarkGaps expected;
          std::size_t gap = 0;
          for (std::size_t i = 0; i < count; ++i, ++gap) {
            if (!(marks[i / 64] >> i % 64 & 1)) continue;
            expected.end = i + 1;
            expected.odd += gap % 2;
            expected.some += gap >= 1;
            expected.three += gap >= 3;
            if (gap >= run) expected.take(i, gap);
            gap = ~std::size_t{0};
          }
          on_every_cpu([&](const std::string& cpu) {
            SCOPED_TRACE(cpu + ", " + std::to_string(count) + ", " + std::to_string(run));
            const kernels::MarkGaps gaps = kernels::gaps_of_marks(marks, run);
            ASSERT_EQ(gaps.end, expected.end);
            ASSERT_EQ(gaps.odd, expected.odd);
            ASSERT_EQ(gaps.some, expected.some);
            ASSERT_EQ(gaps.three, expected.three);
            ASSERT_EQ(gaps.more, expected.more);
            ASSERT_EQ(gaps.number, expected.number);
            for (std::size_t i = 0; i < gaps.number; ++i) {
              EXPECT_EQ(gaps.longs[i].mark, expected.longs[i].mark);
              EXPECT_EQ(gaps.longs[i].gap, expected.longs[i].gap);
            }
          });
        }
}

}  // namespace
}  // namespace laconic::testing
