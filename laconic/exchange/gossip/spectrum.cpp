// Two eigenvalues of a symmetric matrix: Householder's reduction to three diagonals, then bisection
// on how many eigenvalues lie below a number (Sturm). Two of n are wanted and no vectors, so this
// needs neither a library nor iterations that might not end.
#include "laconic/exchange/gossip/spectrum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace laconic {
namespace {

constexpr double kRounding = 1e-15;

struct Tridiagonal {
  std::vector<double> diagonal, beside;  // beside[i]: between i and i + 1
};

// a <- H a H for H = I - 2 v v^T / |v|^2, where v is 0 before `from`. Before from - 1, rows have no
// entry beside their three diagonals any more, so nothing changes there.
void reflect(std::vector<double>& a, std::size_t n, const std::vector<double>& v,
             std::size_t from) {
  double square = 0;
  for (std::size_t i = from; i < n; ++i) square += v[i] * v[i];
  if (square == 0) return;
  std::vector<double> w(n);  // 2 a v / |v|^2
  for (std::size_t i = from - 1; i < n; ++i)
    for (std::size_t j = from; j < n; ++j) w[i] += 2 / square * a[i * n + j] * v[j];
  double along = 0;
  for (std::size_t i = from; i < n; ++i) along += v[i] * w[i];
  for (std::size_t i = from; i < n; ++i) w[i] -= along / square * v[i];
  for (std::size_t i = from - 1; i < n; ++i)
    for (std::size_t j = from - 1; j < n; ++j) a[i * n + j] -= v[i] * w[j] + w[i] * v[j];
}

// A column whose entries are rounding beside the matrix is taken for 0: on a graph as even as the
// complete one most are, and reflections made from their squares, which underflow, are none.
Tridiagonal reduce(std::vector<double> a, std::size_t n) {
  double whole = 0;
  for (const double entry : a) whole += entry * entry;
  for (std::size_t col = 0; col + 2 < n; ++col) {
    std::vector<double> v(n);
    double square = 0;
    for (std::size_t i = col + 1; i < n; ++i) {
      v[i] = a[i * n + col];
      square += v[i] * v[i];
    }
    if (square <= kRounding * kRounding * whole) {
      a[col * n + col + 1] = 0;
      continue;
    }
    v[col + 1] += std::copysign(std::sqrt(square), v[col + 1]);
    reflect(a, n, v, col + 1);
  }
  Tridiagonal t;
  for (std::size_t i = 0; i < n; ++i) {
    t.diagonal.push_back(a[i * n + i]);
    if (i + 1 < n) t.beside.push_back(a[i * n + i + 1]);
  }
  return t;
}

// How many eigenvalues are below x: the signs of the pivots of t - x I.
std::size_t below(const Tridiagonal& t, double x) {
  std::size_t count = 0;
  double pivot = 1;
  for (std::size_t i = 0; i < t.diagonal.size(); ++i) {
    pivot = t.diagonal[i] - x - (i > 0 ? t.beside[i - 1] * t.beside[i - 1] / pivot : 0);
    if (pivot == 0) pivot = std::numeric_limits<double>::min();
    count += pivot < 0 ? 1 : 0;
  }
  return count;
}

// The eigenvalue with `index` smaller ones.
double eigenvalue(const Tridiagonal& t, std::size_t index) {
  double bound = 0;  // no eigenvalue is further from 0 than a row's absolute sum
  for (std::size_t i = 0; i < t.diagonal.size(); ++i)
    bound = std::max(bound, std::abs(t.diagonal[i]) + (i > 0 ? std::abs(t.beside[i - 1]) : 0) +
                                (i < t.beside.size() ? std::abs(t.beside[i]) : 0));
  double low = -bound, high = bound;
  for (int step = 0; step < 100; ++step) {
    const double middle = std::midpoint(low, high);
    (below(t, middle) <= index ? low : high) = middle;
  }
  return std::midpoint(low, high);
}

}  // namespace

std::vector<double> mixing_matrix(const Graph& graph, std::uint64_t round) {
  const auto n = static_cast<std::size_t>(graph.size());
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] = 1;
  for (const Edge& edge : graph.edges(round)) {
    const auto a = static_cast<std::size_t>(edge.a), b = static_cast<std::size_t>(edge.b);
    const double weight = graph.weight(edge, round);
    matrix[a * n + b] = matrix[b * n + a] = weight;
    matrix[a * n + a] -= weight;
    matrix[b * n + b] -= weight;
  }
  return matrix;
}

double Spectrum::contraction(double gamma) const {
  return std::max(std::abs(1 - gamma * (1 - second)), std::abs(1 - gamma * (1 - smallest)));
}

Spectrum spectrum_of(const Graph& graph) {
  const auto n = static_cast<std::size_t>(graph.size());
  std::vector<double> mean(n * n);
  for (std::size_t round = 0; round < graph.period(); ++round) {
    const auto matrix = mixing_matrix(graph, round);
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += matrix[i] / static_cast<double>(graph.period());
  }
  return spectrum_of(std::move(mean), n);
}

Spectrum spectrum_of(std::vector<double> matrix, std::size_t size) {
  const Tridiagonal t = reduce(std::move(matrix), size);
  return {.second = eigenvalue(t, size - 2), .smallest = eigenvalue(t, 0)};
}

}  // namespace laconic
