// Subtractive dither: its closed forms, its bits, and its kernels beside plain loops.
#include "laconic/kernels/dither.h"

#include <algorithm>

#include "laconic/codecs/varint.h"
#include "laconic/kernels/columns.h"
#include "laconic/kernels/dither_escapes.h"
#include "laconic/kernels/low_bits.h"
#include "laconic/kernels/reduce.h"
#include "tests/operators/claims.h"
#include "tests/recorded.h"

namespace laconic::testing {
namespace {

std::vector<std::uint8_t> encode_matrix(const Operator& op, std::span<const float> x,
                                        std::size_t cols, const Keys& keys, unsigned threads = 1) {
  Scratch scratch(threads);
  Buffer out;
  EXPECT_TRUE(op.encode(Source{.fresh = x, .cols = cols}, out, keys, scratch).finite);
  return {out.view().begin(), out.view().end()};
}

double bits_per_entry(const std::string& spec, std::span<const float> x, std::size_t cols = 1) {
  const auto section = encode_matrix(parse_operator(spec), x, cols, make_keys(1, 2, 3));
  return 8.0 * static_cast<double>(section.size()) / static_cast<double>(x.size());
}

// A matrix whose rows and columns differ by powers of two, with some of each all zeros.
std::vector<float> loud_and_quiet(std::size_t rows, std::size_t cols) {
  auto x = gaussian(rows * cols, 1);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      const bool dead = i % 7 == 3 || j % 5 == 1;
      x[i * cols + j] *=
          dead ? 0 : std::exp2(-static_cast<float>(i % 12) - static_cast<float>(j % 9));
    }
  return x;
}

// Nearly a sum of two outer products, with some rows and columns of zeros.
std::vector<float> nearly_thin(std::size_t rows, std::size_t cols, float size = 1) {
  const auto left = gaussian(2 * rows, 1, 5), right = gaussian(2 * cols, 1, 6);
  auto x = gaussian(rows * cols, 0.1F, 7);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      float& entry = x[i * cols + j];
      entry += left[2 * i] * right[2 * j] + left[2 * i + 1] * right[2 * j + 1];
      entry *= i % 7 == 3 || j % 5 == 1 ? 0 : size;
    }
  return x;
}

// All entries are 0.3 steps: level 0 has probability 0.7, and the error is uniform whatever it is.
TEST(Dither, ErrorIsUniformWhateverTheEntry) {
  constexpr double kOmega = 1 / (12 * 0.3 * 0.3);
  const Operator op = parse_operator("dither:" + std::to_string(kOmega));
  const std::vector<float> x(65536, 0.3F);  // so that D = 1
  const auto y = through(op, x);
  constexpr int kBins = 16;
  std::array<int, kBins> bins{};
  double sum = 0, squares = 0;
  int zeros = 0;
  for (const float value : y) {
    const double error = static_cast<double>(value) - 0.3F;
    ASSERT_LT(std::abs(error), 0.5001);
    ++bins[static_cast<std::size_t>(std::clamp((error + 0.5) * kBins, 0.0, kBins - 0.5))];
    sum += error;
    squares += error * error;
    zeros += value < 0.5F;
  }
  const auto n = static_cast<double>(x.size());
  double chi = 0;
  for (const int count : bins) chi += std::pow(count - n / kBins, 2) / (n / kBins);
  EXPECT_LT(chi, 15 + 6 * std::sqrt(30.0));
  EXPECT_NEAR(sum / n, 0, 6 / std::sqrt(12 * n));
  EXPECT_NEAR(squares / n, 1.0 / 12, 6 * std::sqrt(1.0 / 180 / n));
  EXPECT_NEAR(zeros / n, 0.7, 6 * std::sqrt(0.21 / n));
}

// Where all entries are as large, D = sqrt(12 omega |x|^2 / d), and no error is above D / 2.
TEST(Dither, EqualScalesHaveOneStep) {
  for (const double omega : {0.125, 1.0, 0.01}) {
    const Operator op = parse_operator(omega == 0.125 ? "dither"
                                       : omega == 1.0 ? "dither:1"
                                                      : "dither:0.01");
    std::vector<float> x(10000, 2.5F);
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -2.5F;
    const double step = std::sqrt(12 * omega) * 2.5;
    double largest = 0;
    const auto y = through(op, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(y[i]) - x[i]));
    EXPECT_LE(largest, step / 2 * (1 + 1e-6));
    EXPECT_GE(largest, step / 2 * 0.999);
  }
}

TEST(Dither, OneEntryHasOmegaExactly) {
  const std::vector<float> x = {3.0F};
  constexpr int kDraws = 4000;
  const Errors errors(parse_operator("dither"), x, kDraws);
  EXPECT_NEAR(errors.relative(), 0.125, 6 * 0.125 * std::sqrt(0.8 / kDraws));
}

// The largest of all draws is as near to 1/2 as a float can tell: entries of zeros that are not
// sent are at level 0 then, too.
TEST(Dither, ZerosThatAreNotSentMayHaveAnyDraw) {
  const Keys keys = make_keys(1, 2, 3);
  std::uint64_t largest = 100;
  while (keys.own.bits32(largest) >> 8 != 0xffffff) ++largest;
  std::vector<float> x(128, 1.0F);
  std::fill_n(x.begin() + 64, 64, 0.0F);  // a group of zeros has no scale
  const Operator op = parse_operator("dither");
  const Keys there = keys.at(largest - 100);
  const auto y = decode(op, encode_matrix(op, x, 1, there), x.size(), there);
  for (std::size_t i = 64; i < x.size(); ++i) EXPECT_EQ(y[i], 0) << i;
}

// sum D^2 / 12 is omega |x|^2 and not less: measured where there are many entries and in matrices.
TEST(Dither, VarianceIsOmega) {
  for (const auto& [spec, omega] :
       {std::pair{"dither", 0.125}, {"dither:1", 1.0}, {"dither:0.01", 0.01}})
    for (const std::size_t count : {70000, 300000}) {
      SCOPED_TRACE(std::string(spec) + " " + std::to_string(count));
      const auto x = gaussian(count, 0.01F, count);
      const Errors errors(parse_operator(spec), x, 2);
      EXPECT_NEAR(errors.relative(), omega, 6 * errors.relative_sigma() + 1e-6 * omega);
    }
}

void expect_variance(std::span<const float> x, std::size_t cols) {
  const Operator op = parse_operator("dither");
  double along = 0, errors = 0, fourth = 0;
  constexpr int kDraws = 8;
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    const Keys keys = make_keys(4, draw, 0).at(1000);
    const auto y = decode(op, encode_matrix(op, x, cols, keys), x.size(), keys);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = static_cast<double>(y[i]) - x[i];
      if (x[i] == 0) {
        EXPECT_EQ(y[i], 0) << i;
      }
      along += error * x[i];
      errors += error * error;
      fourth += std::pow(error, 4);
    }
  }
  const double norm = squared(x);
  EXPECT_NEAR(errors / kDraws / norm, 0.125, 6 * std::sqrt(fourth) / kDraws / norm);
  EXPECT_NEAR(along / kDraws / norm, 0, 6 * std::sqrt(0.125 / kDraws));
  const auto section = encode_matrix(op, x, cols, make_keys(1, 2, 3));
  for (const unsigned threads : {2U, 3U})
    EXPECT_EQ(encode_matrix(op, x, cols, make_keys(1, 2, 3), threads), section);
  on_every_cpu([&](const std::string&) {
    EXPECT_EQ(encode_matrix(op, x, cols, make_keys(1, 2, 3)), section);
  });
}

TEST(Dither, AMatrixHasTheVarianceToo) {
  expect_variance(loud_and_quiet(300, 250), 250);
  expect_variance(nearly_thin(300, 250), 250);
  expect_variance(nearly_thin(1000, 37), 37);
}

// What is left of a matrix when a product was taken off takes few bits; where entries are so large
// or so small that a product might not be finite, none is.
TEST(Dither, TakesAProductOffMatrices) {
  const std::size_t cols = 250;
  const auto x = nearly_thin(300, cols);
  EXPECT_LT(bits_per_entry("dither", x, cols), 0.55);
  EXPECT_GT(bits_per_entry("dither", x), 1);
  for (const float size : {0x1p60F, 0x1p-60F})
    EXPECT_GT(bits_per_entry("dither", nearly_thin(300, cols, size), cols), 1);
}

TEST(Dither, FactorsThatCannotBeAreRefused) {
  const std::size_t cols = 250;
  const auto x = nearly_thin(300, cols);
  const Operator op = parse_operator("dither");
  const auto section = encode_matrix(op, x, cols, make_keys(1, 2, 3));
  const auto check = [&](ByteView bytes) {
    Scratch scratch;
    op.check(bytes, x.size(), make_keys(1, 2, 3), scratch);
  };
  EXPECT_NO_THROW(check(section));
  const auto refusal = [&](std::size_t at, ByteView bytes) {
    auto changed = section;
    std::ranges::copy(bytes, changed.begin() + static_cast<std::ptrdiff_t>(at));
    return message_of<DataError>([&] { check(changed); });
  };
  Buffer form;
  put_varint(cols + 9 * x.size(), form);
  EXPECT_NE(refusal(0, form.view()).find("a form of 675250"), std::string::npos);
  ByteReader reader(section);
  reader.varint("the form");
  reader.take(6, "loudness");
  for (int i = 0; i < 2; ++i) reader.take(reader.varint("a chunk"), "scales");
  const std::size_t at = section.size() - reader.left();
  for (const float size : {0.0F, -1.0F, 0x1p101F, std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()}) {
    Buffer bytes;
    bytes.append_number(size);
    EXPECT_NE(refusal(at, bytes.view()).find("a column of size"), std::string::npos) << size;
  }
  Buffer all;  // a chunk of codes, one symbol for all of them
  all.append_number(1.0F);
  for (const std::uint8_t byte : {3, 0, 0, 0}) all.append_number(byte);
  EXPECT_NE(refusal(at, all.view()).find("a factor of -128"), std::string::npos);
}

// One class, whose levels have lowest bits: as many bytes as these fill, and zeros after them.
TEST(Dither, LowestBitsThatCannotBeAreRefused) {
  std::vector<float> x(1001, 2.5F);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -2.5F;
  const Operator op = parse_operator("dither:0.01");
  const auto section = encode(op, x, make_keys(1, 2, 3));
  ByteReader reader(section);
  reader.varint("the form");
  reader.take(6, "loudness");
  reader.take(reader.varint("a chunk"), "scales");
  reader.take(1, "a law");
  reader.take(reader.varint("symbols"), "symbols");
  const auto at = static_cast<std::ptrdiff_t>(section.size() - reader.left());
  const std::uint64_t size = reader.varint("lowest bits");
  ASSERT_EQ(size, 126U);  // one of each level
  const auto refusal = [&](auto change) {
    auto changed = section;
    change(changed);
    return message_of<DataError>([&] {
      Scratch scratch;
      op.check(changed, x.size(), make_keys(1, 2, 3), scratch);
    });
  };
  using Bytes = std::vector<std::uint8_t>;
  const auto last = at + 1 + 125;  // a varint of one byte is before them
  EXPECT_NE(refusal([&](Bytes& bytes) {
              --bytes[static_cast<std::size_t>(at)];
              bytes.erase(bytes.begin() + last);
            }).find("without its lowest bits"),
            std::string::npos);
  EXPECT_NE(refusal([&](Bytes& bytes) {
              ++bytes[static_cast<std::size_t>(at)];
              bytes.insert(bytes.begin() + last + 1, std::uint8_t{0});
            }).find("do not end where they should"),
            std::string::npos);
  EXPECT_NE(refusal([&](Bytes& bytes) {
              bytes[static_cast<std::size_t>(last)] |= 0x80;
            }).find("do not end where they should"),
            std::string::npos);
  EXPECT_NE(refusal([&](Bytes& bytes) { bytes.resize(static_cast<std::size_t>(at) + 50); }), "");
}

TEST(Dither, MeanOfFourRanksHasAQuarterOfTheVariance) {
  const auto x = gaussian(40000, 1);
  std::vector<float> mean(x.size());
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    const auto y = through(parse_operator("dither"), x, make_keys(1, 1, rank));
    for (std::size_t i = 0; i < x.size(); ++i) mean[i] += y[i] / 4;
  }
  EXPECT_NEAR(squared_distance(mean, x) / squared(x), 0.125 / 4, 0.001);
}

TEST(Dither, TakesFewBits) {
  const auto x = gaussian(300000, 1);
  EXPECT_LT(bits_per_entry("dither", x), 1.9);    // 1.585 for any unbiased operator at least
  EXPECT_LT(bits_per_entry("dither:1", x), 0.8);  // 0.5
  const auto recorded = recorded_gradient();
  const auto fc1 = std::span(recorded).subspan(25570);  // 50 rows of 800
  EXPECT_LT(bits_per_entry("dither", fc1, 800), 0.7 * bits_per_entry("grid", fc1));
  EXPECT_LT(bits_per_entry("dither:1", fc1, 800), 0.75 * bits_per_entry("grid:1", fc1));
  EXPECT_LT(bits_per_entry("dither", fc1, 800), bits_per_entry("dither", fc1));
  EXPECT_LT(bits_per_entry("dither", std::vector<float>(100000)), 0.001);
}

// The same entries, whose certificate is that of `grid`, and the bytes of any number of threads.
TEST(GridInContexts, SendsWhatGridSendsInFewerBits) {
  const auto recorded = recorded_gradient();
  const auto fc1 = std::span(recorded).subspan(25570);  // 50 rows of 800
  const auto bell = gaussian(70000, 1);
  const Keys keys = make_keys(1, 2, 3);
  for (const char* omega : {"", "1", "0.01"}) {
    SCOPED_TRACE(omega);
    const std::string plain = *omega == 0 ? "grid" : std::string("grid:") + omega;
    const std::string spec = plain + (*omega == 0 ? ":contexts" : ",contexts");
    const auto expect_the_same = [&](std::span<const float> x, std::size_t cols) {
      const Operator op = parse_operator(spec), grid = parse_operator(plain);
      const auto section = encode_matrix(op, x, cols, keys);
      EXPECT_EQ(decode(op, section, x.size(), keys),
                decode(grid, encode(grid, x, keys), x.size(), keys));
      EXPECT_EQ(encode_matrix(op, x, cols, keys, 3), section);
      on_every_cpu(
          [&](const std::string&) { EXPECT_EQ(encode_matrix(op, x, cols, keys), section); });
    };
    expect_the_same(fc1, 800);
    expect_the_same(bell, 1);
    EXPECT_LT(bits_per_entry(spec, fc1, 800), 0.9 * bits_per_entry(plain, fc1));
    EXPECT_LT(bits_per_entry(spec, bell), 1.02 * bits_per_entry(plain, bell));
  }
  EXPECT_TRUE(parse_operator("grid:contexts").traits(100).stratified);
}

TEST(Dither, StandsAlone) {
  for (const char* spec :
       {"dither+entropy", "dither+levels", "bucket:64+dither", "grid:contexts+levels"})
    EXPECT_NE(message_of<UsageError>([&] { parse_operator(spec); }).find("no bucket and no coder"),
              std::string::npos)
        << spec;
  EXPECT_FALSE(parse_operator("dither").traits(100).stratified);
}

// Symbols are read by the sender's draws: with others they do not end where they should.
TEST(Dither, OtherKeysAreRefused) {
  const auto x = gaussian(5000, 1);
  const Operator op = parse_operator("dither");
  const auto section = encode(op, x, make_keys(1, 2, 3));
  Scratch scratch;
  EXPECT_NO_THROW(op.check(section, x.size(), make_keys(1, 2, 3), scratch));
  for (const Keys& other :
       {make_keys(2, 2, 3), make_keys(1, 3, 3), make_keys(1, 2, 4), make_keys(1, 2, 3).at(1)})
    EXPECT_THROW(op.check(section, x.size(), other, scratch), DataError);
}

// Kernels beside plain loops, where positions cross a multiple of 2^32, too.
struct Plain {
  std::vector<std::int32_t> levels;
  std::vector<std::uint16_t> symbols;
  std::vector<float> values;
};

Plain plain_dither(std::span<const float> x, const kernels::DitherSteps& steps,
                   const kernels::DitherScales& scales, Key own, std::uint64_t first) {
  Plain plain;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = scales.scales[scales.by_group ? i / 64 : i];
    const auto m = static_cast<std::int32_t>(2 * (own.bits32(first + i) >> 8) + 1) - (1 << 24);
    const float u = static_cast<float>(m) * 0x1p-25F, size = std::abs(u);
    const auto high = static_cast<std::int32_t>(
        std::clamp(std::floor(x[i] * steps.inverse[k] + (u + 0.5F)), -0x1p30F, 0x1p30F));
    const std::int32_t level = m < 0 ? -high : high;
    const std::uint32_t cls = steps.code[k] / 8, low = cls < 16 ? 0 : (cls - 14) / 2;
    const std::int32_t above = (level + (low > 0 ? 1 << (low - 1) : 0)) >> low;
    const int symbol = above < -2 || above > 4 ? 7 : above + 2;
    const auto bin =
        static_cast<unsigned>((size + (low > 0 ? 0.5F : 0)) * 16 / static_cast<float>(1 << low));
    const unsigned context = steps.code[k] == 0 ? 0 : steps.code[k] + bin;
    plain.levels.push_back(level);
    plain.symbols.push_back(
        static_cast<std::uint16_t>(context * 8 + static_cast<unsigned>(symbol)));
    const float value = (static_cast<float>(level) - size) * steps.step[k];
    plain.values.push_back(m < 0 ? -value : value);
  }
  return plain;
}

TEST(DitherKernels, AreThePlainLoops) {
  kernels::DitherSteps steps{};
  for (std::size_t k = 0; k < 120; ++k) {
    steps.step[k] = std::exp2(-static_cast<float>(k) / 4);
    steps.inverse[k] = 1 / steps.step[k];
    steps.code[k] = static_cast<std::uint32_t>(k % 31 + 1) * 8;
  }
  const Key own = Key(5).fork(3);
  for (const bool by_group : {false, true})
    for (const std::size_t count : {1, 63, 64, 65, 200, 4096, 5003})
      for (const unsigned long long first : {7ULL, (1ULL << 32) - 100, (1ULL << 32) - 64}) {
        SCOPED_TRACE(::testing::Message() << by_group << " " << count << " " << first);
        const auto x = gaussian(count, 1, count);
        std::vector<std::uint8_t> scales(count);
        // Of all sizes, or nearly the same but for some that are not sent.
        for (std::size_t i = 0; i < count; ++i)
          scales[i] = static_cast<std::uint8_t>(first == 7         ? 60 + i * 37 % 30
                                                : i * 37 % 125 > 9 ? i * 37 % 125
                                                                   : kernels::kDitherNowhere);
        if (first == 7)
          for (std::size_t i = 5; i < count; i += 9) scales[i] = kernels::kDitherNowhere;
        const kernels::DitherScales given{scales.data(), by_group};
        const Plain plain = plain_dither(x, steps, given, own, first);
        on_every_cpu([&](const std::string&) {
          std::vector<std::int8_t> small(count);
          std::vector<std::int32_t> wide(count);
          std::vector<std::uint16_t> symbols(count);
          std::vector<std::uint8_t> contexts(count);
          const kernels::LevelSpan levels{small.data(), wide.data()};
          kernels::dither(x, steps, given, own, first, levels, symbols.data());
          kernels::dither_contexts(count, steps, given, own, first, contexts.data());
          std::vector<float> y(count, 0.5F);
          kernels::add_dithered(levels, steps, given, own, first, nullptr, 0.25F, y);
          std::vector<float> z(count, 0.5F);
          kernels::add_dithered(levels, steps, given, own, first, x.data(), 0.25F, z);
          EXPECT_EQ(symbols, plain.symbols);
          std::vector<std::uint16_t> in_classes(count);
          std::vector<std::uint8_t> classes(count);
          kernels::levels_in_classes(levels, count, steps, given, -3, in_classes.data());
          kernels::class_contexts(count, steps, given, classes.data());
          for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(kernels::LevelView(levels)[i], plain.levels[i]) << i;
            EXPECT_EQ(contexts[i], plain.symbols[i] / 8) << i;
            const std::uint32_t code = steps.code[scales[by_group ? i / 64 : i]], cls = code / 8;
            const std::uint32_t low = kernels::dither_low(cls);
            const std::int32_t high = (plain.levels[i] + (low > 0 ? 1 << (low - 1) : 0)) >> low;
            EXPECT_EQ(classes[i], code) << i;
            EXPECT_EQ(in_classes[i], code * 8 + (high < -3 || high > 3 ? 7U : high + 3U)) << i;
            EXPECT_EQ(y[i], 0.5F + 0.25F * plain.values[i]) << i;
            EXPECT_EQ(z[i], 0.5F + 0.25F * (plain.values[i] + x[i])) << i;
          }
        });
      }
}

TEST(DitherKernels, FindEscapes) {
  for (const std::size_t count : {1, 63, 64, 65, 200, 4096}) {
    std::vector<std::uint16_t> codes(count);
    std::vector<std::uint8_t> symbols(count);
    for (std::size_t i = 0; i < count; ++i) {
      codes[i] = static_cast<std::uint16_t>(Key(3).bits(i) % (i % 3 == 0 ? 2048 : 100));
      symbols[i] = codes[i] % 8;
    }
    on_every_cpu([&](const std::string&) {
      std::vector<std::uint8_t> written((count + 7) / 8, 0xff), read(written);
      std::vector<std::int8_t> levels(count);
      kernels::find_escapes(codes, written.data());
      kernels::to_levels_and_escapes(symbols, -2, levels.data(), read.data());
      EXPECT_EQ(read, written);
      for (std::size_t i = 0; i < 8 * written.size(); ++i)
        EXPECT_EQ(written[i / 8] >> (i % 8) & 1, i < count && symbols[i] == 7) << i;
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(levels[i], symbols[i] - 2) << i;
    });
  }
}

// Lowest bits beside a plain loop: of levels of every class, also beyond a byte.
TEST(DitherKernels, PackLowestBits) {
  for (const std::size_t count : {1, 7, 63, 64, 65, 200, 4096})
    for (const auto& [least_class, classes] :
         {std::pair{0U, 32U}, {16U, 16U}, {30U, 2U}, {1U, 14U}}) {
      SCOPED_TRACE(::testing::Message() << count << " " << least_class);
      std::vector<std::uint16_t> codes(count);
      std::vector<std::uint8_t> symbols(count), contexts(count), plain(2 * count + 16);
      std::vector<std::int32_t> all(count), wide(count);
      std::vector<std::int8_t> small(count);
      std::size_t bits = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t draw = Key(4).bits(i);
        const auto cls = least_class + static_cast<std::uint32_t>(draw % classes);
        const std::uint32_t low = kernels::dither_low(cls), half = low > 0 ? 1U << (low - 1) : 0;
        const auto field = static_cast<std::uint32_t>(draw >> 40 & ((1U << low) - 1));
        const auto high = static_cast<std::int32_t>(draw >> 20 & 15) - 5;
        symbols[i] = static_cast<std::uint8_t>(high < -2 || high > 4 ? 7 : high + 2);
        contexts[i] = static_cast<std::uint8_t>(cls * 8 + (draw >> 10 & 7));
        codes[i] = static_cast<std::uint16_t>(contexts[i] * 8 + symbols[i]);
        all[i] = high * (1 << low) + static_cast<std::int32_t>(field - half);
        kernels::LevelSpan{small.data(), wide.data()}.set(i, all[i]);
        for (std::uint32_t bit = 0; bit < low; ++bit, ++bits)
          plain[bits / 8] |= static_cast<std::uint8_t>((field >> bit & 1) << (bits % 8));
      }
      plain.resize((bits + 7) / 8);
      on_every_cpu([&](const std::string&) {
        std::vector<std::uint8_t> written(count + kernels::kLowRoom);
        written.resize(kernels::put_low_bits(codes, {small.data(), wide.data()}, written.data()));
        EXPECT_EQ(written, plain);
        std::vector<std::int8_t> read_small(count);
        std::vector<std::int32_t> read_wide(count);
        for (std::size_t i = 0; i < count; ++i)
          read_small[i] = static_cast<std::int8_t>(symbols[i] < 7 ? symbols[i] - 2 : 0);
        const kernels::LevelSpan read{read_small.data(), read_wide.data()};
        kernels::LowBits from{plain.data(), plain.data() + plain.size()};
        ASSERT_TRUE(kernels::take_low_bits(symbols, contexts.data(), -2, from, read));
        EXPECT_TRUE(from.at_end());
        for (std::size_t i = 0; i < count; ++i) {
          const std::uint32_t low = kernels::dither_low(contexts[i] / 8U);
          const auto field = static_cast<std::uint32_t>(all[i] + (1 << low >> 1));
          if (symbols[i] < 7)
            EXPECT_EQ(kernels::LevelView(read)[i], all[i]) << i;
          else
            EXPECT_EQ(static_cast<std::uint8_t>(read_small[i]), field & ((1U << low) - 1)) << i;
        }
        if (bits == 0) return;
        kernels::LowBits shorter{plain.data(), plain.data() + plain.size() - 1};
        EXPECT_FALSE(kernels::take_low_bits(symbols, contexts.data(), -2, shorter, read));
      });
    }
}

TEST(DitherKernels, SumSquaresOfGroups) {
  for (const std::size_t count : {1, 63, 64, 65, 200, 4096}) {
    const auto x = gaussian(count, 1, count);
    on_every_cpu([&](const std::string&) {
      std::vector<double> sums((count + 63) / 64);
      kernels::squares_of_groups(x, sums.data());
      for (std::size_t group = 0; group < sums.size(); ++group) {
        double lanes[8] = {};
        for (std::size_t i = 64 * group; i < std::min(count, 64 * (group + 1)); ++i)
          lanes[i % 8] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        EXPECT_EQ(sums[group], (lanes[0] + lanes[4] + (lanes[2] + lanes[6])) +
                                   (lanes[1] + lanes[5] + (lanes[3] + lanes[7])))
            << group;
      }
    });
  }
}

TEST(DitherKernels, AddSquaresOfColumns) {
  constexpr std::size_t kRows = 11;
  for (const std::size_t count : {1, 63, 64, 65, 200, 4096}) {
    const auto x = gaussian(kRows * count, 1, count);
    std::vector<double> expected(count, 0.25);
    for (std::size_t i = 0; i < x.size(); ++i)
      expected[i % count] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    on_every_cpu([&](const std::string&) {
      std::vector<double> sums(count, 0.25);
      kernels::add_squares(x.data(), count, kRows, sums);
      EXPECT_EQ(sums, expected);
    });
  }
}

// Parts of 2^19 entries, of which the first has 32 states, and escapes in both; by any number of
// threads.
TEST(Dither, ManyEntriesGoInParts) {
  const auto x = gaussian((1 << 19) + 70000, 1);
  for (const char* spec : {"dither:0.01", "dither:1"}) {
    const Operator op = parse_operator(spec);
    const auto section = encode_matrix(op, x, 1, make_keys(1, 2, 3));
    const double omega = op.traits(x.size()).omega.value();
    EXPECT_NEAR(squared_distance(decode(op, section, x.size(), make_keys(1, 2, 3)), x) / squared(x),
                omega, 0.01 * omega);
    for (const unsigned threads : {2U, 3U})
      EXPECT_EQ(encode_matrix(op, x, 1, make_keys(1, 2, 3), threads), section);
    on_every_cpu([&](const std::string&) {
      EXPECT_EQ(encode_matrix(op, x, 1, make_keys(1, 2, 3)), section);
    });
  }
}

}  // namespace
}  // namespace laconic::testing
