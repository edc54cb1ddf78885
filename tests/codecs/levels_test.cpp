// Codes of levels, more of them than their tables are made for: what is written comes back, and
// what is too large or cut off is refused.
#include "laconic/codecs/levels.h"

#include "tests/support.h"

namespace laconic::testing {
namespace {

// Levels with room for wide ones.
struct Some {
  std::vector<std::int8_t> small;
  std::vector<std::int32_t> wide;

  explicit Some(std::size_t count) : small(count), wide(count) {}
  kernels::LevelSpan at() { return {small.data(), wide.data()}; }
  std::vector<std::int32_t> all() {
    std::vector<std::int32_t> levels(small.size());
    for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = kernels::LevelView(at())[i];
    return levels;
  }
};

Some made(std::size_t count, std::int32_t most, double density, double mean) {
  std::mt19937_64 random(count);
  std::bernoulli_distribution chosen(density), negative(0.4);
  std::geometric_distribution<std::int32_t> above(1 / mean);
  Some levels(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t magnitude = chosen(random) ? std::min(most, 1 + above(random)) : 0;
    levels.at().set(i, negative(random) ? -magnitude : magnitude);
  }
  return levels;
}

struct Work {
  Positions positions;
  Entropy entropy;
  Pool pool{1};
  operator LevelWork() { return {positions, entropy, pool}; }
};

Buffer written(const LevelCodec& codec, Some& levels, std::int32_t most) {
  Work work;
  Buffer out;
  codec.write({levels.at(), levels.small.size(), most}, out, work);
  return out;
}

std::vector<std::int32_t> read_back(const LevelCodec& codec, ByteView bytes, std::size_t count,
                                    std::int32_t most) {
  Work work;
  Some levels(count);
  EXPECT_TRUE(codec.read(bytes, {levels.at(), count, most}, work).empty());
  return levels.all();
}

template <class Body>
void for_cases(Body body) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{40000}})
    for (const std::int32_t most : {1, 2, 9, 126, 127, 128, 200, 1000, 32767})
      for (const double density : {0.05, 0.7, 1.0})
        for (const double mean : {1.3, 20.0, 110.0, 400.0}) {
          Some levels = made(count, most, density, mean);
          for (const LevelCodec& codec : level_codecs()) {
            if (!codec.takes(most)) continue;
            SCOPED_TRACE(codec.name + ": " + std::to_string(count) + " up to " +
                         std::to_string(most) + ", " + std::to_string(density) + " of them, " +
                         std::to_string(mean));
            body(codec, levels, most);
          }
        }
}

TEST(Levels, ComeBack) {
  for_cases([](const LevelCodec& codec, Some& levels, std::int32_t most) {
    const Buffer out = written(codec, levels, most);
    EXPECT_LE(out.size(), codec.max_size(levels.small.size(), most));
    EXPECT_EQ(read_back(codec, out.view(), levels.small.size(), most), levels.all());
  });
}

TEST(Levels, ThatAreCutOffAreRefused) {
  for_cases([](const LevelCodec& codec, Some& levels, std::int32_t most) {
    const Buffer out = written(codec, levels, most);
    for (const std::size_t size : {out.size() - 1, out.size() / 2})
      EXPECT_THROW(read_back(codec, out.view().first(size), levels.small.size(), most), DataError);
  });
}

// As a reader would see them who expects smaller ones: Rice codes are the same for both.
TEST(Levels, BeyondTheMostAreRefused) {
  const auto& codecs = level_codecs();
  const auto sparse = std::ranges::find(codecs, "sparse", &LevelCodec::name);
  ASSERT_NE(sparse, codecs.end());
  for (const std::int32_t most : {3, 9, 100, 127}) {
    Some levels = made(40000, most, 0.7, 1.5);
    levels.at().set(20000, most);
    const Buffer out = written(*sparse, levels, most);
    EXPECT_THROW(read_back(*sparse, out.view(), levels.small.size(), most - 1), DataError) << most;
  }
}

}  // namespace
}  // namespace laconic::testing
