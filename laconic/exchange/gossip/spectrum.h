// How fast a graph mixes: the eigenvalues of its matrix of weights.
#pragma once

#include "laconic/exchange/gossip/graph.h"

namespace laconic {

// W by rows: symmetric, not negative, every row sums to 1.
std::vector<double> mixing_matrix(const Graph& graph, std::uint64_t round = 0);

// The second largest and the smallest eigenvalue. One round of x <- x + gamma (W x - x) multiplies
// the distance from the mean by at most contraction(gamma).
struct Spectrum {
  double second = 0, smallest = 0;

  double gap() const { return 1 - second; }
  double best_gamma() const { return 2 / ((1 - second) + (1 - smallest)); }
  double contraction(double gamma) const;
};

// For a graph that changes, of the mean of W over its period. Takes time in ranks^3.
Spectrum spectrum_of(const Graph& graph);

// The two of any symmetric matrix by rows, of size at least 2.
Spectrum spectrum_of(std::vector<double> matrix, std::size_t size);

}  // namespace laconic
