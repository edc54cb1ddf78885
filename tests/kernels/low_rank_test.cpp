// Low-rank kernels against plain loops, bit for bit, on every instruction set and at odd shapes.
#include "laconic/kernels/low_rank.h"

#include "tests/support.h"

namespace laconic::testing {
namespace {

const std::vector<MatrixShape> kShapes = {{1, 1, 1},   {5, 3, 2},     {70, 33, 4},   {200, 129, 3},
                                          {65, 16, 1}, {3, 5000, 20}, {130, 31, 17}, {4, 15, 64}};

float plain_dot(const float* a, const float* b, std::size_t count) {
  float lanes[16] = {};
  const std::size_t whole = count / 16 * 16;
  for (std::size_t i = 0; i < whole; ++i) lanes[i % 16] += a[i] * b[i];
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  for (std::size_t i = whole; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

std::vector<float> plain_product(const MatrixShape& s, const std::vector<float>& m,
                                 const std::vector<float>& right) {
  std::vector<float> left(s.rows * s.rank);
  for (std::size_t k = 0; k < s.rank; ++k)
    for (std::size_t row = 0; row < s.rows; ++row)
      left[k * s.rows + row] = plain_dot(&m[row * s.cols], &right[k * s.cols], s.cols);
  return left;
}

std::vector<float> plain_transposed(const MatrixShape& s, const std::vector<float>& m,
                                    const std::vector<float>& left) {
  std::vector<float> right(s.cols * s.rank);
  for (std::size_t k = 0; k < s.rank; ++k)
    for (std::size_t from = 0; from < s.rows; from += 64)
      for (std::size_t col = 0; col < s.cols; ++col) {
        float sum = 0;
        for (std::size_t row = from; row < std::min(s.rows, from + 64); ++row)
          sum += left[k * s.rows + row] * m[row * s.cols + col];
        right[k * s.cols + col] += sum;
      }
  return right;
}

struct Case {
  MatrixShape shape;
  std::vector<float> m, left, right;
  explicit Case(const MatrixShape& s)
      : shape(s),
        m(gaussian(s.rows * s.cols, 1, 1)),
        left(gaussian(s.rows * s.rank, 1, 2)),
        right(gaussian(s.cols * s.rank, 1, 3)) {}
};

template <class Body>
void for_cases(Body body) {
  for (const MatrixShape& shape : kShapes) {
    SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.cols) + ", rank " +
                 std::to_string(shape.rank));
    const Case c(shape);
    on_every_cpu([&](const std::string&) { body(c); });
  }
}

TEST(LowRankKernels, ProductsEqualTheirPlainTwins) {
  for_cases([](const Case& c) {
    std::vector<float> left(c.left.size()), right(c.right.size());
    Array<float> spare;
    multiply(c.m, c.shape, c.right, left);
    EXPECT_EQ(left, plain_product(c.shape, c.m, c.right));
    multiply_transposed(c.m, c.shape, c.left, right, spare);
    EXPECT_EQ(right, plain_transposed(c.shape, c.m, c.left));
  });
}

TEST(LowRankKernels, RowsApartAreThoseOfTheWhole) {
  for_cases([](const Case& c) {
    std::vector<float> left(c.left.size()), right(c.right.size()), sums(c.right.size());
    const std::size_t cut = c.shape.rows / 3;
    multiply_rows(c.m, c.shape, c.right, cut, c.shape.rows, left);
    multiply_rows(c.m, c.shape, c.right, 0, cut, left);
    EXPECT_EQ(left, plain_product(c.shape, c.m, c.right));
    std::vector<float> below = c.left;
    for (std::size_t i = 0; i < below.size(); ++i)
      if (i % c.shape.rows >= cut) below[i] = 0;
    multiply_rows_transposed(c.m, c.shape, c.left, 0, cut, right, sums);
    EXPECT_EQ(right, plain_transposed(c.shape, c.m, below));
  });
}

TEST(LowRankKernels, MixingFirstIsTheSame) {
  for_cases([](const Case& c) {
    const auto kept = gaussian(c.m.size(), 1, 4);
    std::vector<float> mixed(c.m.size()), matrix(c.m.size()), left(c.left.size());
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] = c.m[i] + 0.75F * kept[i];
    mix_and_multiply(std::span(c.m), 0.75F, kept, c.shape, c.right, matrix, left);
    EXPECT_EQ(matrix, mixed);
    EXPECT_EQ(left, plain_product(c.shape, mixed, c.right));
    std::ranges::fill(matrix, 0.0F);
    mix_and_multiply(std::span(c.m), 0.75F, kept, {c.shape.rows, c.shape.cols, 0}, {}, matrix, {});
    EXPECT_EQ(matrix, mixed);
  });
}

TEST(LowRankKernels, ExpandedInAnyStretchesAndSubtracted) {
  for_cases([](const Case& c) {
    const MatrixShape& s = c.shape;
    std::vector<float> product(c.m.size()), added = c.m, missed = c.m;
    for (std::size_t i = 0; i < product.size(); ++i) {
      for (std::size_t k = 0; k < s.rank; ++k) {
        const float l = c.left[k * s.rows + i / s.cols], r = c.right[k * s.cols + i % s.cols];
        product[i] += l * r;
        added[i] += 0.5F * l * r;
      }
      missed[i] = 0.25F * (missed[i] - product[i]);
    }
    std::vector<float> sum = c.m;
    add_product(c.left, c.right, s, 0.5F, sum);
    EXPECT_EQ(sum, added);
    for (const std::size_t step : {std::size_t{7}, std::size_t{4096}}) {
      std::vector<float> y(product.size()), m = c.m;
      for (std::size_t from = 0; from < y.size(); from += step)
        expand(c.left, c.right, s, from,
               std::span(y).subspan(from, std::min(step, y.size() - from)), 0.25F, &m[from]);
      EXPECT_EQ(y, product);
      EXPECT_EQ(m, missed);
      if (s.rank > 16) continue;
      std::vector<float> filled(y.size()), rest(y.size());
      for (std::size_t from = 0; from < y.size(); from += step) {
        const std::size_t count = std::min(step, y.size() - from);
        fill_product(c.left, c.right, s, from, std::span(filled).subspan(from, count));
        leave_product(c.left, c.right, s, from, &c.m[from], std::span(rest).subspan(from, count));
      }
      EXPECT_EQ(filled, product);
      for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], c.m[i] - product[i]) << i;
    }
  });
}

}  // namespace
}  // namespace laconic::testing
