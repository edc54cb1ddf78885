// dither: subtractive dither with steps that follow the size of rows and columns, and a variance
// that is known in closed form. Both ends draw u, uniform in (-1/2, 1/2), from the sender's key; q
// = round(x / D + u) is sent, and (q - u) D is uniform in x +- D/2 whatever x is. So it is
// unbiased, and E|C(x) - x|^2 = sum D^2 / 12 exactly. docs/dither.md has the derivation and the
// figures.
//
// An entry of variance s^2 gets the noise N = (sqrt(s^4 + 4 c s^2) - s^2) / 2, which minimises sum
// log(1 + s^2 / N) for a given sum of N, with c such that the sum is omega |x|^2. s^2 is a power of
// two for the row times one for the column of a matrix; else one for every 64 entries.
//
// Steps below the least normal float are 0: such entries are not sent, and there neither the mean
// nor the variance holds.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "laconic/codecs/bits.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/coded_quantiser.h"
#include "laconic/operators/dither_model.h"
#include "laconic/operators/dither_noise.h"
#include "laconic/operators/planes.h"

namespace laconic {
namespace {

using kernels::DitherScales;
using kernels::DitherSteps;

constexpr std::size_t kRow = 64;         // entries that share a scale where there is no matrix
constexpr std::size_t kChunk = 1 << 17;  // entries that are coded together
constexpr std::uint8_t kDead = 63;       // of a row or column of zeros, on the wire
constexpr int kMostExponent = 200;       // of the largest scale
constexpr std::size_t kCodes = 256 * kContextSymbols;
constexpr std::int64_t kMostLevel = 1 << 30;

// The power of two nearest to v > 0 by ratio.
int nearest_power(double v) {
  int exponent = 0;
  return std::frexp(v, &exponent) < 0x1.6a09e667f3bcdp-1 ? exponent - 1 : exponent;
}

// How entries are divided: rows of `cols` entries, each with a scale, and columns with one if it is
// a matrix.
struct Shape {
  std::size_t count, cols;
  bool matrix;

  std::size_t rows() const { return (count + cols - 1) / cols; }
  std::size_t row_size(std::size_t row) const { return std::min(cols, count - row * cols); }
  std::size_t scales() const { return rows() + (matrix ? cols : 0); }

  // Scales of rows and columns must not cost more than they can gain.
  static bool worthwhile(std::size_t count, std::size_t cols) {
    return cols > 1 && count % cols == 0 && count / 8 >= cols + count / cols;
  }
  static Shape of(std::size_t count, std::size_t cols) {
    if (worthwhile(count, cols)) return {count, cols, true};
    return {count, kRow, false};
  }
  static std::size_t most_scales(std::size_t count) { return count / 8 + 1; }
};

// All that is known of a section besides its levels: a plane in memory.
struct Known {
  Key own;
  std::uint64_t first;
  std::size_t cols;
  bool matrix;
  DitherSteps steps;
};
static_assert(std::is_trivially_copyable_v<Known>);

// A section in memory, as its planes have it.
class Section {
 public:
  Section(const PlaneViews& planes, std::size_t count)
      : known_(*reinterpret_cast<const Known*>(planes[0].data())),
        shape_{count, known_.cols, known_.matrix},
        scales_(planes[1].data()),
        levels_{reinterpret_cast<const std::int8_t*>(planes[2].data()),
                reinterpret_cast<const std::int32_t*>(planes[3].data())} {}

  const Known& known() const { return known_; }
  kernels::LevelView levels() const { return levels_; }

  // Calls use(from, count, scales) for blocks of the entries begin..end; begin is a multiple of
  // kRow.
  template <class Use>
  void in_scales(std::size_t begin, std::size_t end, Use use) const {
    if (!shape_.matrix) return use(begin, end - begin, DitherScales{scales_ + begin / kRow, true});
    const std::uint8_t *rows = scales_, *cols = scales_ + shape_.rows();
    for (std::size_t from = begin; from < end; from += kBlock) {
      const std::size_t count = std::min(kBlock, end - from);
      std::uint8_t scales[kBlock];
      in_blocks(from, from + count, shape_.cols,
                [&](std::size_t row, std::size_t at, std::size_t part) {
                  const std::uint8_t *col = cols + (at - row * shape_.cols), mine = rows[row];
                  std::uint8_t* to = scales + (at - from);
                  for (std::size_t i = 0; i < part; ++i)
                    to[i] = static_cast<std::uint8_t>(std::min<int>(mine + col[i], kNowhere));
                });
      use(from, count, DitherScales{scales, false});
    }
  }

 private:
  const Known& known_;
  Shape shape_;
  const std::uint8_t* scales_;  // of rows, then of columns; kNowhere: of zeros
  kernels::LevelView levels_;
};

// How many entries have each scale.
ScaleCounts entries_of(const Shape& shape, std::span<const std::uint8_t> scales) {
  ScaleCounts rows{}, cols{}, all{};
  for (std::size_t row = 0; row < shape.rows(); ++row)
    rows[scales[row]] += shape.matrix ? 1 : shape.row_size(row);
  if (!shape.matrix)
    cols[0] = 1;
  else
    for (const std::uint8_t col : scales.subspan(shape.rows())) ++cols[col];
  for (std::size_t i = 0; i <= kMostSteps; ++i)
    for (std::size_t j = 0; j <= kMostSteps; ++j) all[i + j] += rows[i] * cols[j];
  return all;
}

// The classes that have entries, by bits.
std::uint32_t classes_of(const ScaleCounts& entries, const DitherSteps& steps) {
  std::uint32_t classes = 0;
  for (std::size_t k = 0; k < kNowhere; ++k)
    if (entries[k] > 0 && steps.code[k] > 0) classes |= 1U << steps.code[k] / kernels::kDitherBins;
  return classes;
}

// Shares of entries that are not sent: all for level 0.
constexpr ContextShares kNothing = {
    {0, 0, 0, kShares, kShares, kShares, kShares, kShares, kShares}};

// Whether the level of a symbol is not known from it alone.
bool is_apart(std::uint32_t symbol, unsigned low) {
  return symbol == kContextSymbols - 1 || low > 0;
}

void put_apart(std::int32_t level, unsigned low, BitWriter& bits) {
  const std::int64_t moved = std::int64_t{level} + (low > 0 ? 1 << (low - 1) : 0);
  const std::int64_t high = moved >> low;
  if (high > 4 || high < -2) {
    const auto number =
        static_cast<std::uint64_t>(high > 4 ? 2 * (high - 5) : 2 * (-3 - high) + 1) + 1;
    const auto digits = static_cast<unsigned>(std::bit_width(number));
    bits.put(1ULL << (digits - 1), digits);
    bits.put(number & ((1ULL << (digits - 1)) - 1), digits - 1);
  }
  bits.put(static_cast<std::uint64_t>(moved) & ((1ULL << low) - 1), low);
}

std::int32_t get_apart(std::uint32_t symbol, unsigned low, BitReader& bits) {
  std::int64_t high = static_cast<std::int64_t>(symbol) + kernels::kLeastSymbol;
  if (symbol == kContextSymbols - 1) {
    const auto zeros = static_cast<unsigned>(std::countr_zero(bits.peek() | 1ULL << 40));
    if (zeros > 32) throw DataError("a section by 'dither' has a level beyond 2^30");
    bits.skip(zeros + 1);
    const auto number = static_cast<std::int64_t>(bits.get(zeros) | 1ULL << zeros) - 1;
    high = number % 2 == 0 ? 5 + number / 2 : -3 - number / 2;
  }
  const std::int64_t level =
      (high << low) + static_cast<std::int64_t>(bits.get(low)) - (low > 0 ? 1 << (low - 1) : 0);
  if (level > kMostLevel || level < -kMostLevel)
    throw DataError("a section by 'dither' has a level beyond 2^30");
  return static_cast<std::int32_t>(level);
}

class Dither : public CodedQuantiser {
 public:
  explicit Dither(const Args& args) : omega_(args.number("omega")) {}

  // What is known, the scales, and the levels.
  PlaneShapes planes(std::size_t count) const override {
    return {{.width = 8, .count = sizeof(Known)},
            {.width = 8, .count = Shape::most_scales(count)},
            {.width = 8, .count = count},
            {.width = 32, .count = count}};
  }

  bool write(std::span<const float> x, std::size_t cols, const PlaneSpans& planes, const Keys& keys,
             Buffer& out, StageScratch& scratch) const override {
    const Shape shape = Shape::of(x.size(), cols);
    Known& known = *reinterpret_cast<Known*>(planes[0].data());
    known = {keys.own, keys.first, shape.cols, shape.matrix, {}};
    const auto scales = planes[1].first(shape.scales());
    Loudness loudness;
    const auto squares = measure(x, shape, scales, loudness.exponent, scratch);
    if (!squares) return false;
    const ScaleCounts entries = entries_of(shape, scales);
    if (*squares > 0)
      loudness.c = solved_noise(entries, std::ldexp(omega_ * *squares, -2 * loudness.exponent));
    known.steps = dither_steps(loudness);
    const std::uint32_t classes = *squares > 0 ? classes_of(entries, known.steps) : 0;
    if (classes == 0) return write_zeros(planes, out);
    put_varint(shape.matrix ? shape.cols : 1, out);
    out.append_number(loudness.exponent);
    out.append_number(loudness.c);
    write_scales(shape, scales, out, scratch);
    quantise(x, planes, scratch);
    write_levels(x.size(), planes, classes, out, scratch);
    return true;
  }

  void read(ByteView section, std::size_t count, const Keys& keys, const PlaneSpans& planes,
            StageScratch& scratch) const override {
    Known& known = *reinterpret_cast<Known*>(planes[0].data());
    ByteReader reader(section);
    const std::uint64_t form = reader.varint("the length of a row");
    section = reader.rest();
    const Shape shape = Shape::of(count, static_cast<std::size_t>(form));
    known = {keys.own, keys.first, shape.cols, shape.matrix, {}};
    if (form == 0 && section.empty()) {
      Buffer nothing;
      write_zeros(planes, nothing);
      return;
    }
    if (form != (shape.matrix ? shape.cols : 1))
      throw DataError("a section by 'dither' has rows of " + std::to_string(form) +
                      " entries, which cannot be of " + std::to_string(count));
    const Loudness loudness = read_loudness(section);
    const auto scales = planes[1].first(shape.scales());
    section = read_scales(section, shape, scales, scratch);
    known.steps = dither_steps(loudness);
    const std::uint32_t classes = classes_of(entries_of(shape, scales), known.steps);
    if (classes == 0) throw DataError("a section by 'dither' has scales, and no entry has one");
    read_levels(section, count, planes, classes, scratch);
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const Section section(planes, planes[2].size());
    const Known& known = section.known();
    section.in_scales(
        from, from + y.size(), [&](std::size_t at, std::size_t count, DitherScales scales) {
          kernels::add_dithered(section.levels().from(at), known.steps, scales, known.own,
                                known.first + at, weight, y.subspan(at - from, count));
        });
  }

  std::size_t min_size(std::size_t) const override { return 1; }
  std::size_t max_size(std::size_t count) const override {
    constexpr std::size_t kMostApart = (2 * 33 + 8) / 8 + 1;  // bytes of one level
    return 64 + 32 + 2 * Entropy::max_size(Shape::most_scales(count)) +
           (count / kChunk + 1) * (ContextEncoder::room(0) + kMostVarint) +
           (2 + kMostApart) * count;
  }

  Traits traits(std::size_t) const override {
    return {.unbiased = true,
            .random = true,
            .keeps_signs = false,
            .omega = omega_,
            .delta = omega_ < 1 ? std::optional(1 - omega_) : std::nullopt};
  }

 private:
  static constexpr std::size_t kMostVarint = 10;

  // Fills the scales of rows and columns and the exponent of the largest; returns |x|^2, or nothing
  // when x holds NaN or Inf.
  static std::optional<double> measure(std::span<const float> x, const Shape& shape,
                                       std::span<std::uint8_t> scales, std::int16_t& exponent,
                                       StageScratch& scratch) {
    const std::size_t rows = shape.rows();
    const auto sums = scratch.sums.reset(shape.scales());
    std::atomic<bool> finite = true;
    constexpr std::size_t kPiece = 16 * kBlock;
    const std::size_t at_a_time = std::max<std::size_t>(1, kPiece / shape.cols);
    scratch.pool.each((rows + at_a_time - 1) / at_a_time, [&](std::size_t piece, unsigned) {
      for (std::size_t row = piece * at_a_time; row < std::min(rows, (piece + 1) * at_a_time);
           ++row) {
        kernels::Measures all;
        const auto entries = x.subspan(row * shape.cols, shape.row_size(row));
        for (std::size_t from = 0; from < entries.size(); from += kBlock)
          all.join(kernels::measure_block(
              entries.subspan(from, std::min(kBlock, entries.size() - from))));
        sums[row] = all.squares;
        if (all.largest >= kernels::kInfinity) finite = false;
      }
    });
    if (!finite) return {};
    double total = 0;
    for (const double sum : sums.first(rows)) total += sum;
    if (shape.matrix) sum_columns(x, shape, sums.subspan(rows), scratch.pool);
    if (total == 0) {
      std::ranges::fill(scales, kNowhere);
      return 0;
    }
    const double mean = total / static_cast<double>(shape.count);
    int top = -10000, col_top = shape.matrix ? -10000 : 0;
    const auto power = [&](std::size_t i) {
      if (i >= rows) return nearest_power(sums[i] / static_cast<double>(rows) / mean);
      return nearest_power(sums[i] / static_cast<double>(shape.row_size(i)));
    };
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (sums[i] > 0) (i < rows ? top : col_top) = std::max(i < rows ? top : col_top, power(i));
    exponent = static_cast<std::int16_t>((top + col_top + 1) >> 1);
    top = 2 * exponent - col_top;  // of rows, so that both make it up
    for (std::size_t i = 0; i < sums.size(); ++i)
      scales[i] = sums[i] > 0 ? static_cast<std::uint8_t>(std::min<int>(
                                    (i < rows ? top : col_top) - power(i), kMostSteps))
                              : kNowhere;
    return total;
  }

  // Sums of squares, each from top to bottom; threads take columns.
  static void sum_columns(std::span<const float> x, const Shape& shape, std::span<double> sums,
                          Pool& pool) {
    constexpr std::size_t kStripe = 512;
    pool.each((shape.cols + kStripe - 1) / kStripe, [&](std::size_t stripe, unsigned) {
      const std::size_t first = stripe * kStripe, count = std::min(kStripe, shape.cols - first);
      double* to = sums.data() + first;
      std::fill_n(to, count, 0.0);
      for (std::size_t row = 0; row < shape.rows(); ++row) {
        const float* from = x.data() + row * shape.cols + first;
        for (std::size_t i = 0; i < count; ++i)
          to[i] += static_cast<double>(from[i]) * static_cast<double>(from[i]);
      }
    });
  }

  static bool write_zeros(const PlaneSpans& planes, Buffer& out) {
    Known& known = *reinterpret_cast<Known*>(planes[0].data());
    known.steps = {};
    std::ranges::fill(planes[1], std::uint8_t{0});
    std::ranges::fill(planes[2], std::uint8_t{0});
    put_varint(0, out);
    return true;
  }

  static void write_scales(const Shape& shape, std::span<const std::uint8_t> scales, Buffer& out,
                           StageScratch& scratch) {
    const auto bytes = scratch.spare.reset(scales.size());
    std::ranges::transform(scales, bytes.begin(),
                           [](std::uint8_t scale) { return std::min(scale, kDead); });
    scratch.entropy.encode(bytes.first(shape.rows()), out, scratch.pool);
    if (shape.matrix) scratch.entropy.encode(bytes.subspan(shape.rows()), out, scratch.pool);
  }

  static ByteView read_scales(ByteView section, const Shape& shape, std::span<std::uint8_t> scales,
                              StageScratch& scratch) {
    section = scratch.entropy.decode(section, scales.first(shape.rows()), scratch.pool);
    if (shape.matrix)
      section = scratch.entropy.decode(section, scales.subspan(shape.rows()), scratch.pool);
    for (std::uint8_t& scale : scales) {
      if (scale > kDead)
        throw DataError("a section by 'dither' has a scale of " + std::to_string(scale) +
                        "; allowed: 0 to " + std::to_string(kDead));
      if (scale == kDead) scale = kNowhere;
    }
    return section;
  }

  static Loudness read_loudness(ByteView& section) {
    ByteReader reader(section);
    const auto exponent = reader.number<std::int16_t>("the exponent of the largest scale");
    const Loudness loudness{exponent, reader.number<float>("the noise")};
    section = reader.rest();
    if (std::abs(loudness.exponent) > kMostExponent || !(loudness.c > 0) ||
        !std::isfinite(loudness.c))
      throw DataError("a section by 'dither' has a noise of " + std::to_string(loudness.c) +
                      " times 4^" + std::to_string(loudness.exponent) + ", which cannot be");
    return loudness;
  }

  // Fills the levels, and scratch.symbols.
  static void quantise(std::span<const float> x, const PlaneSpans& planes, StageScratch& scratch) {
    const Section section(views(planes), x.size());
    const Known& known = section.known();
    const kernels::LevelSpan levels{reinterpret_cast<std::int8_t*>(planes[2].data()),
                                    reinterpret_cast<std::int32_t*>(planes[3].data())};
    const auto symbols = scratch.symbols.reset(x.size());
    each_block(x.size(), scratch.pool, [&](std::size_t begin, std::size_t size) {
      section.in_scales(
          begin, begin + size, [&](std::size_t from, std::size_t count, DitherScales scales) {
            kernels::dither(x.subspan(from, count), known.steps, scales, known.own,
                            known.first + from, levels.from(from), symbols.data() + from);
          });
    });
  }

  static void write_levels(std::size_t count, const PlaneSpans& planes, std::uint32_t classes,
                           Buffer& out, StageScratch& scratch) {
    const auto symbols = scratch.symbols.view();
    const std::size_t chunks = (count + kChunk - 1) / kChunk;
    const auto part = [&](std::size_t chunk) {
      return symbols.subspan(chunk * kChunk, std::min(kChunk, count - chunk * kChunk));
    };
    // Every thread counts for itself.
    const unsigned threads = scratch.pool.threads();
    const auto counts = scratch.magnitudes.reset(threads * kCodes);
    std::ranges::fill(counts, 0U);
    scratch.pool.each(chunks, [&](std::size_t chunk, unsigned thread) {
      std::uint32_t* mine = counts.data() + thread * kCodes;
      for (const std::uint16_t code : part(chunk)) ++mine[code];
    });
    for (std::size_t i = kCodes; i < counts.size(); ++i) counts[i % kCodes] += counts[i];

    ContextEncoder encoder;
    encoder.set(0, kNothing);
    bool apart = false;
    for (std::size_t cls = 1; cls < kernels::kDitherClasses; ++cls) {
      if ((classes >> cls & 1) == 0) continue;
      const auto mine = counts.subspan(cls * 64).first<64>();
      const std::uint8_t law = fitted_law(cls, mine);
      out.append_number(law);
      const DitherShares shares = dither_shares(cls, law);
      for (std::size_t bin = 0; bin < shares.size(); ++bin)
        encoder.set(cls * kernels::kDitherBins + bin, shares[bin]);
      apart |= dither_low(cls) > 0;
      for (std::size_t cell = kContextSymbols - 1; cell < 64; cell += kContextSymbols)
        apart |= mine[cell] > 0;
    }

    const std::size_t room = ContextEncoder::room(std::min(count, kChunk));
    const auto staging = scratch.spare.reset(threads * room);
    constexpr unsigned kMostAtOnce = 64;
    std::array<ByteView, kMostAtOnce> coded;
    const std::size_t wave = std::min(threads, kMostAtOnce);
    for (std::size_t first = 0; first < chunks; first += wave) {
      const std::size_t some = std::min(wave, chunks - first);
      scratch.pool.each(some, [&](std::size_t i, unsigned) {
        coded[i] = encoder.encode(part(first + i), staging.subspan(i * room, room));
      });
      for (std::size_t i = 0; i < some; ++i) {
        put_varint(coded[i].size(), out);
        out.append(coded[i]);
      }
    }
    if (apart) write_apart(symbols, planes, out);
  }

  static void write_apart(std::span<const std::uint16_t> symbols, const PlaneSpans& planes,
                          Buffer& out) {
    const Section section(views(planes), symbols.size());
    BitWriter bits(out);
    for (std::size_t begin = 0; begin < symbols.size(); begin += kRow) {
      const auto some = symbols.subspan(begin, std::min(kRow, symbols.size() - begin));
      bool any = false;  // nearly never
      for (const std::uint16_t symbol : some)
        any |= symbol % kContextSymbols == kContextSymbols - 1 || symbol >= 16 * 64;
      for (std::size_t i = 0; any && i < some.size(); ++i) {
        const unsigned low = dither_low(some[i] / 64);
        if (is_apart(some[i] % kContextSymbols, low))
          put_apart(section.levels()[begin + i], low, bits);
      }
    }
    bits.finish();
  }

  static void read_levels(ByteView section, std::size_t count, const PlaneSpans& planes,
                          std::uint32_t classes, StageScratch& scratch) {
    std::array<ContextShares, 256> shares;
    shares.fill(kNothing);
    for (std::size_t cls = 1; cls < kernels::kDitherClasses; ++cls) {
      if ((classes >> cls & 1) == 0) continue;
      if (section.empty()) throw DataError("a section by 'dither' ends early");
      const DitherShares mine = dither_shares(cls, section[0]);
      std::ranges::copy(mine, shares.begin() + static_cast<std::ptrdiff_t>(cls * mine.size()));
      section = section.subspan(1);
    }
    const std::size_t chunks = (count + kChunk - 1) / kChunk;
    const auto ends = scratch.words.reset(2 * chunks);  // where the bytes of each begin and end
    ByteReader rest(section);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      const std::uint64_t size = rest.varint("the length of a chunk of symbols");
      ends[2 * chunk] = section.size() - rest.left();
      rest.take(size, "a chunk of symbols");
      ends[2 * chunk + 1] = section.size() - rest.left();
    }
    const Section known(views(planes), count);
    scratch.pool.each(chunks, [&](std::size_t chunk, unsigned) {
      ContextReader coded(
          section.subspan(static_cast<std::size_t>(ends[2 * chunk]),
                          static_cast<std::size_t>(ends[2 * chunk + 1] - ends[2 * chunk])));
      const std::size_t begin = chunk * kChunk, end = std::min(count, begin + kChunk);
      for (std::size_t from = begin; from < end; from += kBlock)
        read_symbols(known, from, std::min(end, from + kBlock), shares, coded,
                     planes[2].data() + from);
      coded.expect_end();
    });
    read_apart(rest.rest(), known, planes, count);
  }

  static void read_symbols(const Section& section, std::size_t begin, std::size_t end,
                           std::span<const ContextShares, 256> shares, ContextReader& coded,
                           std::uint8_t* symbols) {
    std::uint8_t contexts[kBlock];
    const Known& known = section.known();
    section.in_scales(begin, end, [&](std::size_t from, std::size_t count, DitherScales scales) {
      kernels::dither_contexts(count, known.steps, scales, known.own, known.first + from, contexts);
    });
    coded.read({contexts, end - begin}, shares, symbols);
  }

  // Makes levels of the symbols that stand in their place.
  static void read_apart(ByteView bytes, const Section& section, const PlaneSpans& planes,
                         std::size_t count) {
    const kernels::LevelSpan levels{reinterpret_cast<std::int8_t*>(planes[2].data()),
                                    reinterpret_cast<std::int32_t*>(planes[3].data())};
    const DitherSteps& steps = section.known().steps;
    const bool any_low = std::ranges::any_of(steps.low, [](std::uint32_t low) { return low > 0; });
    BitReader bits(bytes);
    for (std::size_t block = 0; block < count; block += kBlock)
      section.in_scales(
          block, std::min(count, block + kBlock),
          [&](std::size_t from, std::size_t size, DitherScales scales) {
            for (std::size_t begin = 0; begin < size; begin += kRow) {
              const std::size_t part = std::min(kRow, size - begin);
              std::uint8_t* symbols = planes[2].data() + from + begin;
              bool any = any_low;  // else nearly never
              for (std::size_t i = 0; i < part; ++i) any |= symbols[i] == kContextSymbols - 1;
              if (!any) {
                for (std::size_t i = 0; i < part; ++i)
                  symbols[i] = static_cast<std::uint8_t>(symbols[i] + kernels::kLeastSymbol);
                continue;
              }
              for (std::size_t i = begin; i < begin + part; ++i) {
                const std::uint8_t symbol = planes[2][from + i];
                const unsigned low = steps.low[scales.scales[scales.by_group ? i / kRow : i]];
                levels.set(from + i, is_apart(symbol, low) ? get_apart(symbol, low, bits)
                                                           : symbol + kernels::kLeastSymbol);
              }
            }
          });
    bits.expect_end();
  }

  double omega_;
};

const RegisterStage dither{{
    .name = "dither",
    .role = Role::quantiser,
    .summary = "Rounds to steps by row and column with a dither that receivers take off again; "
               "the variance is omega |x|^2, by a closed form.",
    .paper =
        "Laconic's own (docs/dither.md): subtractive dither (Roberts 1962; Zamir and Feder 1992) "
        "at rate-optimal noise",
    .parameters = {{.name = "omega",
                    .fallback = "0.125",
                    .min = 0.001,
                    .max = 16,
                    .help = "variance, as a share of |x|^2"}},
    .bits = "levels in contexts of their dither: 1.9 n of a bell curve at omega = 1/8, and scales",
    .examples = {"dither", "dither:0.01", "dither:1", "topk:0.1+dither", "shrink+dither:2"},
    .one_by_one = true,
    .make = [](const Args& args) -> Stage { return std::make_shared<Dither>(args); },
}};

}  // namespace
}  // namespace laconic
