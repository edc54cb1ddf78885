// A section by `dither`, or by `grid` in contexts, in memory: what its planes hold, and how entries
// come by their scales.
#pragma once

#include <algorithm>

#include "laconic/kernels/low_rank.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/dither_noise.h"
#include "laconic/operators/planes.h"

namespace laconic {

inline constexpr std::size_t kDitherRow =
    64;  // entries that share a scale where there is no matrix
inline constexpr std::int32_t kLeastOfGrid = -3;  // what symbol 0 of a grid stands for
inline constexpr std::size_t kDitherRank = 8;     // of a product at most

// How entries are divided: rows of `cols` entries, each with a scale, and columns with one if it is
// a matrix.
struct DitherShape {
  std::size_t count, cols;
  bool matrix;

  std::size_t rows() const { return (count + cols - 1) / cols; }
  std::size_t row_size(std::size_t row) const { return std::min(cols, count - row * cols); }
  std::size_t scales() const { return rows() + (matrix ? cols : 0); }

  // Scales of rows and columns must not cost more than they can gain.
  static bool worthwhile(std::size_t count, std::size_t cols) {
    return cols > 1 && count % cols == 0 && count / 8 >= cols + count / cols;
  }
  static DitherShape of(std::size_t count, std::size_t cols) {
    if (worthwhile(count, cols)) return {count, cols, true};
    return {count, kDitherRow, false};
  }
  // How a section begins: 1, or the length of a row and above it the rank of a product.
  std::uint64_t form(std::size_t rank = 0) const {
    return matrix ? cols + std::uint64_t{rank} * count : 1;
  }
  static std::size_t most_scales(std::size_t count) { return count / 8 + 1; }
};

// All that is known of a section besides its levels: a plane in memory, which the factors follow.
struct DitherKnown {
  Key own;
  std::uint64_t first;
  std::size_t cols;
  bool matrix;
  bool dithered;     // or levels of a grid, which are coded by scales alone
  std::size_t rank;  // of the product that entries are counted from; 0: none
  kernels::DitherSteps steps;
};
static_assert(std::is_trivially_copyable_v<DitherKnown> &&
              sizeof(DitherKnown) % sizeof(float) == 0);

inline DitherKnown& known_of(const PlaneSpans& planes) {
  return *reinterpret_cast<DitherKnown*>(planes[0].data());
}

// What is known, the scales, and the levels.
inline PlaneShapes class_planes(std::size_t count, std::size_t most_rank) {
  const std::size_t scales = DitherShape::most_scales(count);
  return {{.width = 8, .count = sizeof(DitherKnown) + sizeof(float) * most_rank * scales},
          {.width = 8, .count = scales},
          {.width = 8, .count = count},
          {.width = 32, .count = count}};
}

inline std::span<float> factors_of(std::span<std::uint8_t> plane) {
  const auto bytes = plane.subspan(sizeof(DitherKnown));
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// The product of two factors: columns of one entry for each row, then columns of one for each
// column of the matrix.
class DitherProduct {
 public:
  DitherProduct(const DitherShape& shape, std::size_t rank, const float* factors)
      : shape_{shape.rows(), shape.cols, rank},
        left_(factors, rank * shape_.rows),
        right_(factors + left_.size(), rank * shape_.cols) {}

  // The entries from `from` on, and x minus these.
  void fill(std::size_t from, std::span<float> product) const {
    fill_product(left_, right_, shape_, from, product);
  }
  void leave(std::size_t from, const float* x, std::span<float> rest) const {
    leave_product(left_, right_, shape_, from, x, rest);
  }

 private:
  MatrixShape shape_;
  std::span<const float> left_, right_;
};

// A section in memory, as its planes have it.
class DitherSection {
 public:
  DitherSection(const PlaneViews& planes, std::size_t count)
      : known_(*reinterpret_cast<const DitherKnown*>(planes[0].data())),
        shape_{count, known_.cols, known_.matrix},
        scales_(planes[1].data()),
        levels_{reinterpret_cast<const std::int8_t*>(planes[2].data()),
                reinterpret_cast<const std::int32_t*>(planes[3].data())} {}

  const DitherKnown& known() const { return known_; }
  kernels::LevelView levels() const { return levels_; }
  DitherProduct product() const {
    return {shape_, known_.rank, reinterpret_cast<const float*>(&known_ + 1)};
  }

  // What symbol 0 stands for.
  std::int32_t least() const { return known_.dithered ? kernels::kLeastSymbol : kLeastOfGrid; }

  std::size_t scale_of(std::size_t i) const {
    if (!shape_.matrix) return scales_[i / kDitherRow];
    const std::size_t row = i / shape_.cols, col = i % shape_.cols;
    return std::min<std::size_t>(scales_[row] + scales_[shape_.rows() + col], kNowhere);
  }

  // Calls use(from, count, scales) for blocks of the entries begin..end; begin is a multiple of
  // kDitherRow.
  template <class Use>
  void in_scales(std::size_t begin, std::size_t end, Use use) const {
    if (!shape_.matrix)
      return use(begin, end - begin, kernels::DitherScales{scales_ + begin / kDitherRow, true});
    const std::uint8_t *rows = scales_, *cols = scales_ + shape_.rows();
    for (std::size_t from = begin; from < end; from += kBlock) {
      const std::size_t count = std::min(kBlock, end - from);
      std::uint8_t scales[kBlock];
      in_blocks(from, from + count, shape_.cols,
                [&](std::size_t row, std::size_t at, std::size_t part) {
                  const std::uint8_t *col = cols + (at - row * shape_.cols), mine = rows[row];
                  std::uint8_t* to = scales + (at - from);
                  for (std::size_t i = 0; i < part; ++i) {
                    const auto both = static_cast<std::uint8_t>(mine + col[i]);  // up to 254
                    to[i] = std::min(both, kNowhere);  // in bytes: sixteen at once
                  }
                });
      use(from, count, kernels::DitherScales{scales, false});
    }
  }

 private:
  const DitherKnown& known_;
  DitherShape shape_;
  const std::uint8_t* scales_;  // of rows, then of columns; kNowhere: of zeros
  kernels::LevelView levels_;
};

}  // namespace laconic
